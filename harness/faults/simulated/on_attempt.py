"""The acts of faults on simulated attempts: on what sources send, on the checkpoint store, on the worker.

An element that a fault shaped is counted once, however often an attempt takes it up again. A trouble of the
store counts the writes that it met. A worker that was stopped (SIGSTOP) goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.history.event import In, Wm

if TYPE_CHECKING:
    from harness.clock import Clock
    from harness.faults.simulated.act import Evidence
    from harness.levels.sim.place import SimulatedAttempt
    from harness.levels.sim.simulation import Simulation

__all__ = ["OnStore", "Shaped", "StoppedWorker"]


class Shaped:
    """What the sources of a run sent on account of one fault: begun, counted, over. Mutable."""

    def __init__(self) -> None:
        self.begun = False
        self.over = False
        self.touched: dict[tuple[int, int], None] = {}

    def accepted(self, taken: In | Wm, place: range, *, subtask: int, quiet_ms: int) -> None:
        """An attempt took `taken`, after its source had sent no record for `quiet_ms`; `place`: see `ShapingFault`."""
        key = (subtask, taken.pos)
        if not self.over and key not in self.touched:
            self.take(taken, place, key=key, quiet_ms=quiet_ms)

    def take(self, taken: In | Wm, place: range, *, key: tuple[int, int], quiet_ms: int) -> None:
        """One that was not counted yet."""
        raise NotImplementedError

    def evidence(self) -> dict[str, Any]:
        """What was counted; empty: nothing."""
        raise NotImplementedError


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
