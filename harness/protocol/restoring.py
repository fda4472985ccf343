"""Snapshots of both sides by their ids, and what it means to restore one: each side from its own state.

Invariant: a snapshot whose contents legally differ between the sides is restored on neither; a restore knows whether
the order in which it re-issues calls may differ, for then numbers mean nothing across the sides (A19-A25).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from harness.protocol.comparison import segments
from harness.protocol.driver import Command
from harness.protocol.events import Event, Snapshot
from harness.protocol.script import Life, value_key

__all__ = ["Restored", "Snapshots", "open_command"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What a life starts from on each side."""

    left: msgspec.Raw | None = None
    right: msgspec.Raw | None = None
    free: bool = False
    """Several records stand between two watermarks of an unordered snapshot: each side orders them as it likes."""
    shuffled: bool = False
    """And the sides do list them in different orders."""
    beyond: bool = False
    """More is restored than has a slot."""

    def must_drain(self, life: Life, *, shuffled: bool) -> bool:
        """Whether the order decides what happens: who is admitted at all, or who stands at the head."""
        return shuffled and (self.beyond or life.config.get("mode") == "ordered")


class Snapshots:
    """Mutable: what both sides have taken so far in a script."""

    def __init__(self) -> None:
        self._taken: dict[int, tuple[str, Snapshot, Snapshot]] = {}

    def take(self, left: Sequence[Event], right: Sequence[Event], *, mode: str) -> None:
        """Keep the snapshots of two matching answers; one that only a failing task took is nobody's."""
        theirs = {event.id: event for event in right if type(event) is Snapshot}
        both = [(event, theirs[event.id]) for event in left if type(event) is Snapshot and event.id in theirs]
        for mine, other in both:
            if segments(mine.elements, mode=mode) == segments(other.elements, mode=mode):
                self._taken[mine.id] = (mode, mine, other)

    def restored(self, life: Life) -> Restored:
        """What `life` starts from; nothing, if its snapshot was not taken, or not alike."""
        if life.restore is None or life.restore not in self._taken:
            return Restored()
        mode, mine, other = self._taken[life.restore]
        crowd = max(len(part) for part in segments(mine.elements, mode=mode) or [[]])
        return Restored(
            left=mine.state,
            right=other.state,
            free=mode == "unordered" and crowd > 1,
            shuffled=value_key(mine.elements) != value_key(other.elements),
            beyond=len(mine.elements) > life.config.get("capacity", 0),
        )


def open_command(life: Life, state: msgspec.Raw | None) -> Command:
    """The command that starts a life on one side."""
    return {"cmd": "open", "config": life.config, "now": life.now, "restore": state}
