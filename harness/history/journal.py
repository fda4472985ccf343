"""The journal: writes the events of one attempt, as `docs/reference/history.md` defines them, at every level.

It is the operator's probe and the task's observer. Invariant: an event is written before it takes effect (an `out`
before it reaches the sink, a `call` before it is made). Only `commit` follows its effect; a `CommitBegun` note
comes before, so that the merge can reconstruct the commit if the attempt dies in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import msgspec
from msgspec import UNSET, UnsetType

from harness.history.event import Call, Close, Failed, Held, Met, OfAttempt, Out, Owm, Res, Snap, Start
from harness.history.notes import AttemptNote, CommitBegun, InProcess, Made, Note, NoteLog
from harness.system.process_identity import ProcessIdentity


class EventLog(Protocol):
    """Where a journal writes: the attempt's file (`Recorder`), or the memory of a simulated run.

    It gives each event its number and its time. A lost event leaves a gap in the numbers.
    """

    @property
    def thread(self) -> str:
        """The calling thread, for V21: only the task's thread may call, settle, emit and snapshot."""

    def event(self, kind: type[OfAttempt], **fields: Any) -> None:
        """Append an event with these fields; a field with the value `UNSET` is left out."""

    def write(self, line: Note) -> None:
        """Append a note: evidence, not an event of the history."""

    def claim(self, *, s: int, a: int, c: int) -> None:
        """Append a `commit`, unless the simulated database records commits itself."""


class CallLog(NoteLog, Protocol):
    """What of a journal is told of calls where they end; the usual one is `Journal`, tests have a list."""

    def raised(self, id: int, error: BaseException, *, by_timeout: bool = False) -> None:
        """The latest call of record `id`, or its timeout handler, ended with `error`."""


_ON_THREAD: Final = frozenset({Out, Owm, Snap})
"""With `Call` and `Res`: the events for which V21 asks for the thread."""
_NO_ANSWER: tuple[int | UnsetType, int | None] = (UNSET, None)


class Journal:
    """Writes the events of one attempt of one subtask. Mutable: numbers its calls, counts its events."""

    def __init__(self, log: EventLog, *, subtask: int, attempt: int) -> None:
        self._log = log
        self._event = log.event
        self._subtask = subtask
        self._attempt = attempt
        self._nonce = (subtask << 44) + (attempt << 28)
        self._asked: dict[tuple[Any, int], int] = {}
        self._latest: dict[Any, int] = {}
        self._answered: dict[int, tuple[int, int | None]] = {}
        self._raised: dict[tuple[int, bool], str] = {}
        """The errors with which calls and timeout handlers ended, by the call's nonce, and whether of a timeout."""
        self._made = 0
        """The events so far, counted here and not by the log: a log that loses some is found out."""
        self._is_closed = False
        self.ends: Callable[[], None] = lambda: None
        """Called before the attempt's failure or close is written: tells a wait that still lasts."""
        self.calls_again: Callable[[], None] = lambda: None
        """Called before a further call of a record is written: tells why its timeout could not come before it."""

    @property
    def attempt(self) -> int:
        """The number of the attempt."""
        return self._attempt

    def event(self, kind: type[OfAttempt], **fields: Any) -> None:
        """Writes an event of this attempt with these fields; call `called` and `settled` for those of calls."""
        self._made += 1
        if kind in _ON_THREAD:
            fields["thread"] = self._log.thread
        self._event(kind, s=self._subtask, a=self._attempt, **fields)

    def note(self, note: AttemptNote) -> None:
        """Writes a note of this attempt: evidence, not an event."""
        self._log.write(msgspec.structs.replace(note, s=self._subtask, a=self._attempt))

    def started(
        self,
        *,
        checkpoint: int | None,
        position: int,
        process: ProcessIdentity,
        by: str | UnsetType = UNSET,
    ) -> None:
        """`by`: the cause of a start that follows no failure of an earlier attempt."""
        self.event(Start, from_=checkpoint, pos=position, by=by)
        self._log.write(InProcess(s=self._subtask, a=self._attempt, pid=process.pid, started=process.started))

    def called(self, *, id: int, attempt: int) -> None:
        """Gives the call a nonce that is unique in the run; its answer must echo it (V19)."""
        if attempt > 1:
            self.calls_again()
        self._nonce += 1
        nonce = self._asked[id, attempt] = self._latest[id] = self._nonce
        self._made += 1
        self._event(
            Call,
            s=self._subtask,
            a=self._attempt,
            id=id,
            try_=attempt,
            nonce=nonce,
            thread=self._log.thread,
        )

    def nonce_of(self, id: int) -> int:
        """The nonce of the latest call of record `id`, which the lookup sends with the query."""
        return self._latest[id]

    def answered(self, asked: int, echoed: int, version: int | None) -> None:
        """The answer to the call with nonce `asked` came with nonce `echoed`; `ver` None: the row has no version."""
        self._answered[asked] = echoed, version

    def raised(self, id: int, error: BaseException, *, by_timeout: bool = False) -> None:
        """The latest call of record `id`, or its timeout handler, ended with `error`; no policy has seen it yet.

        It is written here, at its source: what the operator reports later may be another error, or a result.
        """
        self._raised[self._latest.get(id, 0), by_timeout] = f"{type(error).__name__}: {error}"

    def settled(
        self,
        *,
        id: int,
        attempt: int,
        ending: str,
        final: bool,
        values: Sequence[object] | None,
        error: str | None,
        by: str | None = None,
        met: Met | None = None,
    ) -> None:
        """`by`, `met`: the cause of a failure and what its call had met, if they are known."""
        asked = self._asked.pop((id, attempt), 0)
        answer = self._answered.pop(asked, _NO_ANSWER)
        echoed, version = answer if ending == "ok" else _NO_ANSWER
        source = (self._latest.get(id, 0), True) if ending == "timeout" else (asked, False)
        self._made += 1
        self._event(
            Res,
            s=self._subtask,
            a=self._attempt,
            id=id,
            try_=attempt,
            r=ending,
            final=final,
            v=UNSET if values is None else values,
            error=UNSET if error is None else error,
            by=UNSET if by is None else by,
            nonce=echoed,
            ver=UNSET if version is None else version,
            raised=self._raised.pop(source, UNSET),
            met=UNSET if met is None else met,
            thread=self._log.thread,
        )

    def committing(self, checkpoint: int, *, writer: int | None = None) -> None:
        """`writer` is the attempt that prepared the transaction, if it is another one."""
        self._log.write(CommitBegun(s=self._subtask, a=writer or self._attempt, c=checkpoint))

    def committed(self, checkpoint: int, *, writer: int | None = None) -> None:
        self._log.claim(s=self._subtask, a=writer or self._attempt, c=checkpoint)

    def failed(self, error: str, *, id: int | None = None, by: str | None = None) -> None:
        """`by`: the cause, if it is known."""
        self.ends()
        self.event(Failed, error=error, id=UNSET if id is None else id, by=UNSET if by is None else by)
        self._log.write(Made(s=self._subtask, a=self._attempt, events=self._made))

    def held(self, since_us: int) -> None:
        """The thread waited since then; after the close this concerns no call any more."""
        if not self._is_closed:
            self.event(Held, since=since_us)

    def closed(self) -> None:
        self.ends()
        self.event(Close)
        self._is_closed = True
        self._log.write(Made(s=self._subtask, a=self._attempt, events=self._made))
