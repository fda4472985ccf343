"""The acts of faults on simulated attempts: on source elements, checkpoint writes and worker processes.

Invariants: an element changed by a fault counts once, however often attempts replay it; a stopped worker is resumed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.faults.simulated.act import Evidence, RunningAttempt, SimulatedRun
from harness.history.event import In, Wm

if TYPE_CHECKING:
    from harness.system.clock import Clock


class Shaped:
    """Counts the elements that attempts took because of one shaping fault. Mutable."""

    def __init__(self) -> None:
        self.begun = False
        self.over = False
        self.touched: dict[tuple[int, int], None] = {}

    def accepted(self, taken: In | Wm, place: range, *, subtask: int, quiet_ms: int) -> None:
        """Reports that an attempt took `taken` after `quiet_ms` without a record; `place`: see `ShapingFault`."""
        key = (subtask, taken.pos)
        if not self.over and key not in self.touched:
            self.take(taken, place, key=key, quiet_ms=quiet_ms)

    def take(self, taken: In | Wm, place: range, *, key: tuple[int, int], quiet_ms: int) -> None:
        """Judges an element that was not counted yet."""
        raise NotImplementedError

    def evidence(self) -> dict[str, Any]:
        """What it counted; empty: nothing."""
        raise NotImplementedError


class OnStore:
    """Acts on checkpoint writes while it is active. Mutable: counts them."""

    settles_ms = 0

    def __init__(self, run: SimulatedRun, subtask: int | None) -> None:
        self._run = run
        self._subtask = subtask
        self.met = 0

    def begins(self) -> None:
        self._run.store_troubles.append(self)

    def ends(self) -> None:
        self._run.store_troubles.remove(self)

    def on_write(self, attempt: RunningAttempt, clock: Clock) -> None:
        """`attempt` is about to write: take its time, or raise the OSError, if it is one that is meant."""
        if self._subtask in {None, attempt.subtask}:
            self.met += 1
            self.act(clock)

    def act(self, clock: Clock) -> None:
        """Delays the write, or raises an OSError."""
        raise NotImplementedError


class StoppedWorker:
    """Pauses the newest attempt of a subtask. Mutable."""

    def __init__(self, run: SimulatedRun, subtask: int) -> None:
        self._run = run
        self._subtask = subtask
        self._attempt: RunningAttempt | None = None
        self._since_ms = 0
        self._paused_ms = 0

    @property
    def settles_ms(self) -> int:
        return 0

    def begins(self) -> None:
        """Pauses the attempt, wherever it is; does nothing if there is none."""
        attempt = self._run.attempts.get(self._subtask)  # None: a subtask that a rescale has yet to begin
        if attempt is None or not attempt.actor.alive or not attempt.number:
            return
        self._attempt, self._since_ms = attempt, self._run.hub.now_ms
        attempt.actor.pause()
        self.stopped(attempt)
        if attempt.actor.is_current:  # it reached the phase of its trigger
            while attempt.actor.paused:
                attempt.wait()

    def stopped(self, attempt: RunningAttempt) -> None:
        """Nobody minds."""

    def ends(self) -> None:
        if self._attempt is not None:
            self._paused_ms = self._run.hub.now_ms - self._since_ms
            self._attempt.actor.resume()
            self._attempt.actor.wake()

    def evidence(self) -> Evidence:
        if self._attempt is None:
            return {}
        paused_ms = self._paused_ms or self._run.hub.now_ms - self._since_ms
        return {"subtask": self._subtask, "attempt": self._attempt.number, "paused_ms": paused_ms}
