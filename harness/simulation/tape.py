"""The tape: all events of a simulated run, as structs in one list; and what an attempt's journal writes on it.

Invariant: events stand in the order in which they happened, numbered without a gap; an attempt that was cut off
(SIGKILL) writes nothing any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from msgspec import UNSET

from harness.history.event import AttemptEvent, Event, In, Out, Res
from harness.simulation.hub import Hub

__all__ = ["CALLBACK", "TASK", "MemoryRecorder", "Tape"]

TASK: Final = "task"
CALLBACK: Final = "client"

Hears = Callable[[str, str, dict[str, Any]], None]
"""Of which fault, what was done or measured, and the facts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreFallback:
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
        self.passed_over: list[RestoreFallback] = []
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


class MemoryRecorder:
    """One attempt's end of the tape; an `EventLog`. Mutable: can be cut off.

    While `thread` is `CALLBACK`, a callback of the event loop runs outside of any mail: a foreign thread, to V21.
    """

    def __init__(self, tape: Tape) -> None:
        self.thread = TASK
        self._hub = tape.hub
        self._tape = tape

    def cut(self) -> None:
        """The attempt was killed: nothing of it is written any more, but to a tape that nobody reads."""
        self._tape = Tape(self._hub)

    def event(self, kind: type[AttemptEvent], **fields: Any) -> None:
        held = _HOLDS_VALUES.get(kind)
        if held is not None:
            value = fields[held]
            if type(value) not in _SCALARS:
                fields[held] = _kept(value)
            # A failure is accepted in the frame of whoever reports it, and by mail the task hears of it.
            if kind is Res and self.thread is CALLBACK:
                fields["thread"] = UNSET
        tape = self._tape
        tape.numbered = number = tape.numbered + 1
        self._write(number, kind(n=number, t=self._hub.now_ms * 1000, **fields))  # type: ignore[arg-type]

    def _write(self, number: int, event: Event) -> None:
        """What a recorder that loses events overrides."""
        del number
        self._tape.events.append(event)

    def record(self, kind: str, **fields: Any) -> None:
        """See `EventLog`; what only a real process can tell is no news here, nor what the simulation does itself."""
        tape = self._tape
        match kind:
            case "~lost" | "~error":
                tape.errors[fields["code"]] += 1
            case "~store":
                tape.passed_over.append(
                    RestoreFallback(
                        checkpoint=fields["c"],
                        file=fields["file"],
                        what=fields["what"],
                        restored=fields["to"],
                    )
                )
            case "~acted" | "~measured" if tape.hears is not None:
                fault, what = fields.pop("f"), fields.pop("what")
                facts = {"subtask": fields.pop("s"), "attempt": fields.pop("a"), **fields}
                tape.hears(fault, what, facts)

    def claim(self, **fields: Any) -> None:
        """See `EventLog`: the simulated database tells what it has committed, and when."""


_HOLDS_VALUES: Final[dict[type[AttemptEvent], str]] = {In: "expect", Res: "v", Out: "v"}
"""The field of a kind that holds what the function under test may go on changing."""
