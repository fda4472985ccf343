"""The journal: one attempt's own history, in the words of `docs/history.md`.

The probe of the operator and the observer of the task. Invariant: what is journalled has not yet taken
effect (an `out` is not yet in the sink, a `call` not yet made); only `commit` follows its effect, announced
by a `~committing` note that lets the merge settle it if the attempt dies in between.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, UnsetType, field

from harness.history.recorder import EventLine, Recorder
from harness.history.values import told_watermark
from harness.process_identity import ProcessIdentity

__all__ = ["Journal"]


class Journal:
    """Writes events of attempt `attempt` of `subtask`; ids are those of the records' values."""

    def __init__(self, recorder: Recorder, *, subtask: int, attempt: int) -> None:
        self._recorder = recorder
        self._subtask = subtask
        self._attempt = attempt
        self._first_nonce = (subtask << 44) + (attempt << 28)
        self._calls = 0
        self._asked: dict[tuple[Any, int], int] = {}
        self._latest: dict[Any, int] = {}
        self._answered: dict[int, int] = {}
        self._thread_id = 0
        self._thread_name = ""

    def _thread(self) -> str:
        """Who does it, for V21: `call`, `res`, `out`, `owm` and `snap` are for the task's thread alone.

        The latest one's name is kept, for that is nearly always the task's own, which outlives the journal.
        """
        if self._thread_id != (thread_id := threading.get_ident()):
            self._thread_id, self._thread_name = thread_id, threading.current_thread().name
        return self._thread_name

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
        known = UNSET if expect is None else expect
        self._recorder.append(_In(0, 0, "in", self._subtask, self._attempt, position, id, key, ts, known))

    def took_watermark(self, *, position: int, timestamp: int) -> None:
        self._event("wm", pos=position, w=told_watermark(timestamp))

    def called(self, *, id: int, attempt: int) -> None:
        """With a nonce that no other call of the run has: its answer has to echo it (V19)."""
        self._calls += 1
        nonce = self._asked[id, attempt] = self._latest[id] = self._first_nonce + self._calls
        self._recorder.append(
            _Call(0, 0, "call", self._subtask, self._attempt, id, attempt, nonce, self._thread())
        )

    def nonce_of(self, id: int) -> int:
        """Of the latest call of record `id`: the lookup sends it along."""
        return self._latest[id]

    def answered(self, asked: int, echoed: int) -> None:
        """The answer to the call with nonce `asked` came with nonce `echoed`."""
        self._answered[asked] = echoed

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
        v = UNSET if values is None else values
        because = UNSET if error is None else error
        echoed = self._answered.pop(self._asked.pop((id, attempt), 0), UNSET)
        self._recorder.append(
            _Res(
                0,
                0,
                "res",
                self._subtask,
                self._attempt,
                id,
                attempt,
                ending,
                final,
                v,
                because,
                echoed if ending == "ok" else UNSET,
                self._thread(),
            )
        )

    def emits(self, *, id: int, j: int, value: Any, ts: int | None) -> None:
        self._recorder.append(
            _Out(0, 0, "out", self._subtask, self._attempt, id, j, value, ts, self._thread())
        )

    def emits_watermark(self, timestamp: int) -> None:
        self._event("owm", w=told_watermark(timestamp), thread=self._thread())

    def snapped(self, *, checkpoint: int, position: int, elements: Sequence[dict[str, Any]]) -> None:
        self._event("snap", c=checkpoint, pos=position, elements=list(elements), thread=self._thread())

    def committing(self, checkpoint: int, *, writer: int | None = None) -> None:
        """`writer`: the attempt that prepared it, if another one did."""
        self._recorder.record("~committing", s=self._subtask, a=writer or self._attempt, c=checkpoint)

    def committed(self, checkpoint: int, *, writer: int | None = None) -> None:
        self._recorder.record("commit", s=self._subtask, a=writer or self._attempt, c=checkpoint)

    def heard_complete(self, checkpoint: int) -> None:
        """The checkpoint is complete, and the sink has nothing left to commit for it."""
        self._event("~completed", c=checkpoint)

    def passed_over(self, *, checkpoint: int, file: str, what: str, restored: int | None) -> None:
        """A completed checkpoint could not be read (`what`), and an older one is restored."""
        self._event("~store", what=what, c=checkpoint, file=file, to=restored)

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

    def server_error(self, link: str, code: int | str) -> None:
        """The server answered over `link` with an error that leaves the connection: evidence, not an event."""
        self._event("~error", link=link, code=code)

    def dead(self, *, id: int) -> None:
        self._event("dead", id=id)

    def about_to_die(self, *, fault: str, phase: str, hit: int, how: str) -> None:
        """Written before the attempt ends itself."""
        self._event("~dies", fault=fault, phase=phase, hit=hit, how=how)

    def about_to_stop(self, *, fault: str) -> None:
        """Written before the attempt stops itself, for somebody else to let it go on."""
        self._event("~stops", f=fault)

    def acted(self, fault: str, what: str, **facts: Any) -> None:
        """What a fault does inside the attempt: evidence, not an event."""
        self._event("~acted", f=fault, what=what, **facts)

    def measured(self, fault: str, what: str, **facts: Any) -> None:
        """What came of it: evidence, not an event."""
        self._event("~measured", f=fault, what=what, **facts)

    def blocked(self, *, ms: float, where: str) -> None:
        """The event loop stood still, and the function under test was at `where`: for pitfalls, not an event."""
        self._event("~blocked", ms=ms, where=where)

    def alive(self) -> None:
        """The event loop turns: for pitfalls, not an event."""
        self._event("~alive")

    def used_pool(self, *, size: int, opened: int, waited: int, longest_wait_ms: float) -> None:
        """What the pool of the lookups counted: for pitfalls, not an event."""
        self._event("~pool", size=size, opened=opened, waited=waited, longest_wait_ms=longest_wait_ms)

    def reached(self, phase: str) -> None:
        """Written where a fault listens to a phase that no event shows."""
        self._event("~reached", phase=phase)


# The events of each record, for they are many; all others go by name. `docs/history.md` has their fields.


class _In(EventLine):
    pos: int
    id: int
    key: Any
    ts: int | None
    expect: Sequence[Any] | UnsetType


class _Call(EventLine):
    id: int
    try_: int = field(name="try")
    nonce: int
    thread: str


class _Res(EventLine):
    id: int
    try_: int = field(name="try")
    r: str
    final: bool
    v: Sequence[Any] | UnsetType
    error: str | UnsetType
    nonce: int | UnsetType
    thread: str


class _Out(EventLine):
    id: int
    j: int
    v: Any
    ts: int | None
    thread: str
