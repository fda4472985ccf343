"""The journal: one attempt's own history, in the words of `docs/history.md`.

The probe of the operator and the observer of the task. Invariant: what is journalled has not yet taken
effect (an `out` is not yet in the sink, a `call` not yet made); only `commit` follows its effect, announced
by a `~committing` note that lets the merge settle it if the attempt dies in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.history.recorder import Recorder
from harness.process_identity import ProcessIdentity

__all__ = ["Journal"]


class Journal:
    """Writes events of attempt `attempt` of `subtask`; ids are those of the records' values."""

    def __init__(self, recorder: Recorder, *, subtask: int, attempt: int) -> None:
        self._recorder = recorder
        self._subtask = subtask
        self._attempt = attempt

    def _event(self, kind: str, **fields: Any) -> None:
        self._recorder.record(kind, s=self._subtask, a=self._attempt, **fields)

    def started(self, *, checkpoint: int | None, position: int, process: ProcessIdentity) -> None:
        self._event("start", **{"from": checkpoint}, pos=position)
        self._event("~process", pid=process.pid, started=process.started)

    def restored(self, *, checkpoint: int, elements: Sequence[dict[str, Any]]) -> None:
        self._event("restore", c=checkpoint, elements=list(elements))

    def took_record(
        self, *, position: int, id: int, key: Any, ts: int | None, expect: Sequence[Any] | None
    ) -> None:
        known = {} if expect is None else {"expect": list(expect)}
        self._event("in", pos=position, id=id, key=key, ts=ts, **known)

    def took_watermark(self, *, position: int, timestamp: int) -> None:
        self._event("wm", pos=position, w=timestamp)

    def called(self, *, id: int, attempt: int) -> None:
        self._event("call", id=id, **{"try": attempt})

    def settled(
        self,
        *,
        id: int,
        attempt: int,
        ending: str,
        final: bool,
        values: Sequence[Any] | None,
        error: str | None,
    ) -> None:
        outcome: dict[str, Any] = {} if values is None else {"v": list(values)}
        if error is not None:
            outcome["error"] = error
        self._event("res", id=id, **{"try": attempt}, r=ending, final=final, **outcome)

    def emits(self, *, id: int, j: int, value: Any, ts: int | None) -> None:
        self._event("out", id=id, j=j, v=value, ts=ts)

    def emits_watermark(self, timestamp: int) -> None:
        self._event("owm", w=timestamp)

    def snapped(self, *, checkpoint: int, position: int, elements: Sequence[dict[str, Any]]) -> None:
        self._event("snap", c=checkpoint, pos=position, elements=list(elements))

    def committing(self, checkpoint: int) -> None:
        self._event("~committing", c=checkpoint)

    def committed(self, checkpoint: int) -> None:
        self._event("commit", c=checkpoint)

    def failed(self, error: str, *, id: int | None = None) -> None:
        self._event("failed", error=error, **({} if id is None else {"id": id}))

    def source_exhausted(self) -> None:
        self._event("end")

    def drained(self) -> None:
        self._event("ended")

    def closed(self) -> None:
        self._event("close")

    def lost_connection(self, link: str, code: int | str) -> None:
        """A connection over `link` was lost or refused: evidence, not an event."""
        self._event("~lost", link=link, code=code)

    def about_to_die(self, *, fault: str, phase: str, hit: int) -> None:
        """Written before the SIGKILL that the attempt sends itself."""
        self._event("~dies", fault=fault, phase=phase, hit=hit)
