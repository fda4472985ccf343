"""A simulated worker that is stopped (SIGSTOP) and goes on.

Invariant: an attempt that was stopped goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.faults.simulated.act import Evidence
    from harness.levels.sim.place import SimulatedAttempt
    from harness.levels.sim.simulation import Simulation

__all__ = ["StoppedWorker"]


class StoppedWorker:
    """The newest attempt of a subtask does nothing for a while. Mutable."""

    def __init__(self, run: Simulation, subtask: int) -> None:
        self._run = run
        self._subtask = subtask
        self._attempt: SimulatedAttempt | None = None
        self._since_ms = 0
        self._paused_ms = 0

    @property
    def settles_ms(self) -> int:
        """See `Act`."""
        return 0

    def begins(self) -> None:
        """Stop it wherever it is; one that is not there cannot be stopped."""
        attempt = self._run.attempts[self._subtask]
        if not attempt.actor.alive or not attempt.number:
            return
        self._attempt, self._since_ms = attempt, self._run.hub.now_ms
        attempt.actor.pause()
        self.stopped(attempt)
        if attempt.actor.is_current:  # at a phase of its own
            while attempt.actor.paused:
                attempt.wait()

    def stopped(self, attempt: SimulatedAttempt) -> None:
        """Nobody minds."""

    def ends(self) -> None:
        """It goes on."""
        if self._attempt is not None:
            self._paused_ms = self._run.hub.now_ms - self._since_ms
            self._attempt.actor.resume()
            self._attempt.actor.wake()

    def evidence(self) -> Evidence:
        """Whose attempt, and for how long."""
        if self._attempt is None:
            return {}
        paused_ms = self._paused_ms or self._run.hub.now_ms - self._since_ms
        return {"subtask": self._subtask, "attempt": self._attempt.number, "paused_ms": paused_ms}
