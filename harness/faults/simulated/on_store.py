"""What acts on writes into the simulated checkpoint store.

Invariant: it counts the writes that it met.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.sim.coordinated_run import CoordinatedRun
    from harness.sim.coordinator import Part

__all__ = ["OnStore"]


class OnStore:
    """A trouble of the store while it lasts; harmless as it is. Mutable: counts."""

    settles_ms = 0
    stalls = False

    def __init__(self, run: CoordinatedRun, subtask: int | None) -> None:
        self._run = run
        self._subtask = subtask
        self._met = 0

    def begins(self) -> None:
        """The next write meets it."""
        self._run.store.troubles.append(self)

    def ends(self) -> None:
        """No more."""
        self._run.store.troubles.remove(self)

    def is_mine(self, subtask: int) -> bool:
        """Whether it acts on this subtask's part."""
        return self._subtask in {None, subtask}

    def slows_ms(self, subtask: int) -> int:
        """See `StoreTrouble`."""
        del subtask
        return 0

    def fails(self, subtask: int) -> bool:
        """See `StoreTrouble`."""
        del subtask
        return False

    def written(self, part: Part) -> bool:
        """See `StoreTrouble`."""
        del part
        return True
