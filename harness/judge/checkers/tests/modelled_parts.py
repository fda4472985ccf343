"""What the model of `legal_histories` is made of: an entry of a queue, a snap, an attempt, a subtask.

Mutable values without behaviour beyond asking them; the model moves them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass(slots=True)
class Entry:
    """One element in a queue."""

    element: Json
    """As the source holds it."""
    pos: int
    tries: int = 0
    calling: bool = False
    outputs: list[Any] | None = None
    """Settled: what it must still emit."""
    substitute: bool = False

    @property
    def is_mark(self) -> bool:
        return "w" in self.element

    @property
    def ready(self) -> bool:
        return self.is_mark or self.outputs is not None

    @property
    def waits(self) -> bool:
        """For a slot: it was never called."""
        return not self.tries and not self.ready

    def stored(self) -> Json:
        if self.is_mark:
            return {"w": self.element["w"], "pos": self.pos}
        return {"id": self.element["id"]}


@dataclass(slots=True)
class Saved:
    """A snap: what a restart goes on with."""

    c: int
    a: int
    pos: int
    entries: list[Entry]
    settled: int


@dataclass(slots=True)
class Settled:
    """A record that has left, with its outputs or as a dead letter."""

    a: int
    record: Json
    outputs: list[Any]
    substitute: bool = False
    letter: Json | None = None
    """What its row of dead letters says besides the id."""


@dataclass(slots=True)
class Attempt:
    a: int
    pos: int
    queue: list[Entry] = field(default_factory=list)
    end: bool = False
    queued: list[int] = field(default_factory=list)
    """Epochs snapped and not yet handed to the sink."""
    emitted: int = 0
    """Since its last snap."""


@dataclass(slots=True)
class Subtask:
    s: int
    source: list[Json]
    attempt: Attempt
    zombies: list[Attempt] = field(default_factory=list)
    pending: Saved | None = None
    completed: list[Saved] = field(default_factory=list)
    settled: list[Settled] = field(default_factory=list)
    """As a restart leaves it."""
    commits: list[tuple[int, int]] = field(default_factory=list)
    ended: bool = False
    since_completed: int = 0
