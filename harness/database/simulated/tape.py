"""The tape: all events of a simulated run, as structs in one list, and the recorder of one attempt's journal.

Invariant: events are in the order in which they happened, numbered without a gap; after an attempt was killed
its recorder writes nothing to the tape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final, get_args

import msgspec
from msgspec import UNSET

from harness.database.simulated.hub import Hub
from harness.history.event import AttemptEvent, Event, In, Kill, OfAttempt, Out, Res
from harness.history.notes import (
    Acted,
    ClientError,
    HiddenError,
    Hurried,
    KeptConnections,
    Made,
    Measured,
    NestedAcquire,
    Note,
    PoolUse,
    RestoreFallback,
    Stopped,
)

TASK: Final = "task"
CALLBACK: Final = "client"

Hears = Callable[[str, str], None]
"""Called with a fault's name, and what an attempt did or measured for the fault."""


class Tape:
    """All events of a run. Mutable: grows. Fewer `events` than `numbered` means that events were lost."""

    __slots__ = ("errors", "events", "hears", "hub", "made", "misuses", "numbered", "passed_over")

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.numbered = 0
        self.events: list[Event] = []
        self.made: list[tuple[int, int, int, int]] = []
        """(subtask, attempt, how many events its journal made, how many were on the tape) at its end."""
        self.errors: Counter[int | str] = Counter()
        """Counts of database errors and lost connections in attempts, by code: evidence, not events."""
        self.passed_over: list[RestoreFallback] = []
        """Unusable checkpoint files found by restores: evidence, not events."""
        self.misuses: list[Note] = []
        """Notes about how a user's lookup uses the pool and the loop, as files of attempts hold them: for pitfalls."""
        self.hears: Hears | None = None
        """Receives what faults do inside attempts: evidence, not events."""

    @property
    def n(self) -> int:
        """Take the next event's number. Read once per event, so that a lost event leaves a gap."""
        self.numbered += 1
        return self.numbered

    @property
    def t(self) -> int:
        """The current virtual time in microseconds."""
        return self.hub.now_ms * 1000

    def add(self, event: Event) -> None:
        """Append an event built with the current `n` and `t`."""
        self.events.append(event)

    def note(self, kind: type[Event | Note], **fields: Any) -> None:
        """Append an event of the coordinator; its decisions are recorded when their transaction commits."""
        if not issubclass(kind, Note):
            self.add(kind(n=self.n, t=self.t, **fields))


def missing_of(tape: Tape) -> int:
    """How many events are missing: numbers without an event, or events that a journal counted."""
    return max(tape.numbered - len(tape.events), untold(tape))


def untold(tape: Tape) -> int:
    """How many events, by the journals' own counts, are not on the tape."""
    missing = passed = 0
    told: dict[tuple[int, int], int] = {}
    for subtask, attempt, made, place in tape.made:
        for event in tape.events[passed:place]:
            if type(event) in _OF_JOURNALS:
                of: tuple[int, int] = event.s, event.a  # type: ignore[union-attr, assignment]
                told[of] = told[of] + 1 if of in told else 1
        missing += abs(made - told.get((subtask, attempt), 0))
        passed = place
    return missing


_OF_JOURNALS: Final = frozenset(get_args(OfAttempt)) - {Kill}
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})


def _kept(value: object) -> object:
    """Copy lists and dicts deeply: later changes by the function must not alter the recorded value."""
    if type(value) in _SCALARS:
        return value
    if type(value) is dict:
        return {name: part if type(part) in _SCALARS else _kept(part) for name, part in value.items()}
    if type(value) is list or type(value) is tuple:
        return [part if type(part) in _SCALARS else _kept(part) for part in value]
    return value


def _nobody_listens() -> None:
    """Default callback: no one waits for the attempt to stop."""


class MemoryRecorder:
    """Writes one attempt's events to the tape; an `EventLog`. Mutable: can be cut off.

    While `thread` is `CALLBACK`, a loop callback runs outside the mailbox: another thread for V21.
    """

    def __init__(self, tape: Tape) -> None:
        self.thread = TASK
        self.stopped: Callable[[], None] = _nobody_listens
        """Called when the attempt stops for a rescale."""
        self._hub = tape.hub
        self._tape = tape

    def cut(self) -> None:
        """The attempt was killed: its later events go to a new tape that is discarded."""
        self._tape = Tape(self._hub)

    def event(self, kind: type[AttemptEvent], **fields: object) -> None:
        if kind in _HOLDS_VALUES:
            held = _HOLDS_VALUES[kind]
            if held in fields and type(value := fields[held]) not in _SCALARS:
                fields[held] = _kept(value)
            # A callback may accept an outcome and mail it to the task: V21 must not see a foreign thread.
            if kind is Res and self.thread is CALLBACK:
                fields["thread"] = UNSET
        tape = self._tape
        tape.numbered = number = tape.numbered + 1
        self._write(number, kind(n=number, t=self._hub.now_ms * 1000, **fields))  # type: ignore[arg-type]

    def _write(self, number: int, event: Event) -> None:
        """Append the event; a recorder variant that loses events overrides this method."""
        del number
        self._tape.events.append(event)

    def write(self, line: Note) -> None:
        """See `EventLog`. Ignores notes about real processes and about the simulation's own actions."""
        tape = self._tape
        match line:
            case ClientError():
                tape.errors[line.code] += 1
            case Made():
                tape.made.append((line.s, line.a, line.events, len(tape.events)))
            case Stopped():
                self.stopped()
            case HiddenError() | Hurried() | KeptConnections() | NestedAcquire() | PoolUse():
                tape.misuses.append(msgspec.structs.replace(line, t=tape.t))
            case RestoreFallback():
                tape.passed_over.append(line)
            case Acted() | Measured() if tape.hears is not None:
                tape.hears(line.fault, line.what)

    def claim(self, *, s: int, a: int, c: int) -> None:
        """See `EventLog`. Writes nothing: the simulated database records commits itself."""


_HOLDS_VALUES: Final[dict[type[AttemptEvent], str]] = {In: "expect", Res: "v", Out: "v"}
"""Event kind -> the field whose value the function under test may still change after the event."""
