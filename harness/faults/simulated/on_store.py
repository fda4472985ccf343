"""What acts on writes into the simulated checkpoint store.

Invariant: it counts the writes that it met.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.clock import Clock
    from harness.levels.sim.place import SimulatedAttempt
    from harness.levels.sim.simulation import Simulation

__all__ = ["OnStore"]


class OnStore:
    """A trouble of the store while it lasts. Mutable: counts."""

    settles_ms = 0

    def __init__(self, run: Simulation, subtask: int | None) -> None:
        self._run = run
        self._subtask = subtask
        self.met = 0

    def begins(self) -> None:
        """The next write meets it."""
        self._run.store_troubles.append(self)

    def ends(self) -> None:
        """No more."""
        self._run.store_troubles.remove(self)

    def meets(self, attempt: SimulatedAttempt, clock: Clock) -> None:
        """`attempt` is about to write: take its time, or raise the OSError, if it is one that is meant."""
        if self._subtask in {None, attempt.subtask}:
            self.met += 1
            self.strike(clock)

    def strike(self, clock: Clock) -> None:
        """What happens to the write."""
        raise NotImplementedError
