"""The buffer journal: one attempt's history as structs in one list, for runs whose time and order are the hub's.

The form of `harness.history.journal.Journal` at level sim. Invariant: events stand in the order in which they
happened, numbered without a gap; a journal that was cut off (SIGKILL) writes nothing any more. `commit` and
`done` are not an attempt's word: whoever makes it visible tells the tape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from msgspec import UNSET

from harness.history.event import (
    Call,
    Close,
    Dead,
    End,
    Ended,
    Event,
    Failed,
    In,
    Kill,
    Out,
    Owm,
    Res,
    Restore,
    Snap,
    Start,
    Wm,
)
from harness.history.values import END_OF_TIME, told_watermark
from harness.levels.sim.hub import Hub
from harness.process_identity import ProcessIdentity

__all__ = ["SIMULATED_PROCESS", "BufferJournal", "Hears", "PassedOver", "Tape"]

SIMULATED_PROCESS = ProcessIdentity(pid=0, started=0)


Hears = Callable[[str, str, dict[str, Any]], None]
"""Of which fault, what was done or measured, and the facts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedOver:
    """A part in the checkpoint store that a restore could not use; it went back to `restored`."""

    checkpoint: int
    file: str
    what: str
    restored: int | None


class Tape:
    """All events of a run. Mutable: grows. With fewer `events` than were `numbered`, some were lost."""

    __slots__ = ("errors", "events", "hears", "hub", "numbered", "passed_over")

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.numbered = 0
        self.events: list[Event] = []
        self.errors: Counter[int | str] = Counter()
        """What attempts met of the database's errors and of lost connections: evidence, no events."""
        self.passed_over: list[PassedOver] = []
        """What restores met in the checkpoint store: evidence, no events."""
        self.hears: Hears | None = None
        """Told of what faults do inside attempts: evidence, no events."""

    @property
    def n(self) -> int:
        """The next event's number; to be asked once for each, so that one that gets lost leaves a gap."""
        self.numbered += 1
        return self.numbered

    @property
    def t(self) -> int:
        """The present, in microseconds."""
        return self.hub.now_ms * 1000

    def add(self, event: Event) -> None:
        """Append an event made with `n` and `t` of this very moment."""
        self.events.append(event)


_SCALARS: Final = frozenset({str, int, float, bool, type(None)})


def _kept(value: Any) -> Any:
    """As it is now: whoever goes on using a list or a dict must not rewrite what was recorded."""
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is dict:
        copy = value.copy()
        for name, part in value.items():
            if type(part) not in _SCALARS:
                copy[name] = _kept(part)
        return copy
    if kind is list or kind is tuple:
        return [part if type(part) in _SCALARS else _kept(part) for part in value]
    return value


def _all_kept(values: Sequence[Any]) -> list[Any]:
    if len(values) == 1:  # nearly always, and a comprehension costs as much as the event
        value = values[0]
        return [value if type(value) is str else _kept(value)]
    return [value if type(value) is str else _kept(value) for value in values]


def _named(elements: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**element, "w": "end"} if element.get("w") == END_OF_TIME else element for element in elements]


class BufferJournal:
    """Writes events of attempt `attempt` of `subtask`. Mutable: can be cut off.

    `in_callback` says whether a callback of the event loop runs, outside of any mail: a foreign thread's
    stand-in (V21). With `nonces` each call has one, and its outcome that of the answer (V19).
    """

    def __init__(self, tape: Tape, *, subtask: int, attempt: int, nonces: bool = False) -> None:
        self.tape = self._of_the_run = tape
        self.subtask = subtask
        self.attempt = attempt
        self.nonces = nonces
        self.in_callback = False
        self._asked: dict[tuple[Any, int], int] = {}
        self._latest: dict[Any, int] = {}
        self._answered: dict[int, Any] = {}
        self._given_up: dict[Any, str] = {}
        self._hub = tape.hub
        self._put: Callable[[Event], None] = self._write
        self._write_to(tape)

    def cut(self) -> None:
        """The attempt was killed: nothing of it is written any more, but to a tape that nobody reads."""
        self._write_to(Tape(self._hub))

    def _write_to(self, tape: Tape) -> None:
        self.tape = tape
        if type(self)._write is BufferJournal._write:  # noqa: SLF001 - nobody loses events: spare a call
            self._put = tape.events.append

    def _write(self, event: Event) -> None:
        """What a recorder that loses events overrides."""
        self.tape.events.append(event)

    def started(
        self, *, checkpoint: int | None, position: int, process: ProcessIdentity = SIMULATED_PROCESS
    ) -> None:
        del process
        tape = self.tape
        self._write(Start(n=tape.n, t=tape.t, s=self.subtask, a=self.attempt, from_=checkpoint, pos=position))

    def restored(self, *, checkpoint: int, elements: Sequence[dict[str, Any]]) -> None:
        tape = self.tape
        self._write(
            Restore(
                n=tape.n,
                t=tape.t,
                s=self.subtask,
                a=self.attempt,
                c=checkpoint,
                elements=_named(elements),
            )
        )

    def took_record(
        self, *, position: int, id: int, key: Any, ts: int | None, expect: Sequence[Any] | None
    ) -> None:
        tape = self.tape
        tape.numbered = number = tape.numbered + 1
        self._put(
            In(
                n=number,
                t=self._hub.now_ms * 1000,
                s=self.subtask,
                a=self.attempt,
                pos=position,
                id=id,
                key=key,
                ts=ts,
                expect=UNSET if expect is None else _all_kept(expect),
            )
        )

    def took_watermark(self, *, position: int, timestamp: int) -> None:
        tape = self.tape
        tape.numbered = number = tape.numbered + 1
        self._put(
            Wm(
                n=number,
                t=self._hub.now_ms * 1000,
                s=self.subtask,
                a=self.attempt,
                pos=position,
                w=told_watermark(timestamp),
            )
        )

    def called(self, *, id: int, attempt: int) -> None:
        tape = self.tape
        tape.numbered = number = tape.numbered + 1
        if self.nonces:  # a number that no other call of the run has
            self._asked[id, attempt] = self._latest[id] = number
        self._put(
            Call(
                n=number,
                t=self._hub.now_ms * 1000,
                s=self.subtask,
                a=self.attempt,
                id=id,
                try_=attempt,
                nonce=number if self.nonces else UNSET,
                thread="client" if self.in_callback else "task",
            )
        )

    def nonce_of(self, id: int) -> int | None:
        """Of the latest call of `id`: the client sends it along."""
        return self._latest.get(id)

    def answered(self, asked: int | None, echoed: Any) -> None:
        """The answer to the request with nonce `asked` came with nonce `echoed`."""
        if asked is not None:
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
        tape = self.tape
        tape.numbered = number = tape.numbered + 1
        echoed: Any = UNSET
        given_up = self._given_up.pop(id, None) if self._given_up else None
        if given_up is not None:
            ending, error, values = "timeout" if ending == "timeout" else "fail", given_up, None
        if self.nonces and ending == "ok":
            echoed = self._answered.pop(self._asked.get((id, attempt), 0), UNSET)
        self._put(
            Res(
                n=number,
                t=self._hub.now_ms * 1000,
                s=self.subtask,
                a=self.attempt,
                id=id,
                try_=attempt,
                r=ending,  # type: ignore[arg-type]  # a StrEnum's value
                final=final,
                v=UNSET if values is None else _all_kept(values),
                nonce=echoed,
                error=UNSET if error is None else error,
                # A failure is accepted in the frame of whoever reports it, and by mail the task hears of it.
                thread=UNSET if self.in_callback else "task",
            )
        )
        if given_up is not None:
            self.dead(id=id)

    def emits(self, *, id: int, j: int, value: Any, ts: int | None) -> None:
        tape = self.tape
        tape.numbered = number = tape.numbered + 1
        self._put(
            Out(
                n=number,
                t=self._hub.now_ms * 1000,
                s=self.subtask,
                a=self.attempt,
                id=id,
                j=j,
                v=value if type(value) is str else _kept(value),
                ts=ts,
                thread="client" if self.in_callback else "task",
            )
        )

    def emits_watermark(self, timestamp: int) -> None:
        tape = self.tape
        tape.numbered = number = tape.numbered + 1
        self._put(
            Owm(
                n=number,
                t=self._hub.now_ms * 1000,
                s=self.subtask,
                a=self.attempt,
                w=told_watermark(timestamp),
                thread="client" if self.in_callback else "task",
            )
        )

    def snapped(self, *, checkpoint: int, position: int, elements: Sequence[dict[str, Any]]) -> None:
        tape = self.tape
        self._write(
            Snap(
                n=tape.n,
                t=tape.t,
                s=self.subtask,
                a=self.attempt,
                c=checkpoint,
                pos=position,
                elements=_named(elements),
                thread="client" if self.in_callback else "task",
            )
        )

    def gives_up(self, *, id: int, error: str) -> None:
        """The record will have no results, for its call ended so: it goes to the dead letters once it is settled."""
        self._given_up[id] = error

    def dead(self, *, id: int) -> None:
        """The record went to the dead-letter output."""
        tape = self.tape
        self._write(Dead(n=tape.n, t=tape.t, s=self.subtask, a=self.attempt, id=id))

    def committing(self, checkpoint: int, *, writer: int | None = None) -> None:
        """Nothing: the database itself tells what it has committed, and when."""

    def committed(self, checkpoint: int, *, writer: int | None = None) -> None:
        """Nothing, as `committing`."""

    def heard_complete(self, checkpoint: int) -> None:
        """Nothing: the coordinator itself tells what is complete."""

    def passed_over(self, *, checkpoint: int, file: str, what: str, restored: int | None) -> None:
        """A restore met that file, and went back to checkpoint `restored`."""
        met = PassedOver(checkpoint=checkpoint, file=file, what=what, restored=restored)
        self.tape.passed_over.append(met)

    def failed(self, error: str, *, id: int | None = None) -> None:
        tape = self.tape
        self._write(
            Failed(
                n=tape.n,
                t=tape.t,
                s=self.subtask,
                a=self.attempt,
                error=error,
                id=UNSET if id is None else id,
            )
        )

    def source_exhausted(self) -> None:
        tape = self.tape
        self._write(End(n=tape.n, t=tape.t, s=self.subtask, a=self.attempt))

    def drained(self) -> None:
        tape = self.tape
        self._write(Ended(n=tape.n, t=tape.t, s=self.subtask, a=self.attempt))

    def closed(self) -> None:
        tape = self.tape
        self._write(Close(n=tape.n, t=tape.t, s=self.subtask, a=self.attempt))

    def killed(self) -> None:
        """The harness's word, when the attempt is cut off already."""
        tape = self._of_the_run
        tape.add(Kill(n=tape.n, t=tape.t, s=self.subtask, a=self.attempt))

    def lost_connection(self, link: str, code: int | str) -> None:
        """A connection was lost or refused."""
        del link
        self.tape.errors[code] += 1

    def server_error(self, link: str, code: int | str) -> None:
        """The database answered with an error."""
        del link
        self.tape.errors[code] += 1

    def acted(self, fault: str, what: str, **facts: Any) -> None:
        if self.tape.hears is not None:
            self.tape.hears(fault, what, {"subtask": self.subtask, "attempt": self.attempt, **facts})

    def measured(self, fault: str, what: str, **facts: Any) -> None:
        self.acted(fault, what, **facts)

    def about_to_die(self, *, fault: str, phase: str, hit: int, how: str) -> None:
        """Nothing: who kills tells the tape."""

    def about_to_stop(self, *, fault: str) -> None:
        """Nothing, as `about_to_die`."""

    def blocked(self, *, ms: float, where: str) -> None:
        """Nothing: virtual time passes while nobody runs."""

    def alive(self) -> None:
        """Nothing, as `blocked`."""

    def used_pool(self, *, size: int, opened: int, waited: int, longest_wait_ms: float) -> None:
        """Nothing: there is no client, so there are no pitfalls of one."""

    def reached(self, phase: str) -> None:
        """Nothing: a subtask's hits are counted over all its attempts."""
