"""What an attempt of level sim does to itself: it stands still, or its calendar does not show the time.

Answers to `harness.sut.inside`. Invariant: what was measured is told, a lag or a jump of the clock, not what was asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.levels.sim.hub import Due
from harness.sim.faults.act import Evidence

if TYPE_CHECKING:
    from harness.sim.simulation import Simulation

__all__ = ["ClockJump", "LoopStall"]

_TICK_MS: Final = 10


class LoopStall:
    """The task's thread does nothing for a while, and with it its event loop. Mutable."""

    settles_ms = 0

    def __init__(self, run: Simulation, subtask: int, *, lasts_ms: int) -> None:
        self._run = run
        self._subtask = subtask
        self._lasts_ms = lasts_ms
        self._since_ms: int | None = None
        self._lag_ms = 0

    def begins(self) -> None:
        """At this very place, if the attempt itself is here; else as the next callback of its loop."""
        attempt = self._run.attempts[self._subtask]
        if not attempt.actor.alive or attempt.loop is None or attempt.loop.is_closed():
            return
        if attempt.actor.is_current:
            self._stall()
        else:
            attempt.loop.call_soon_threadsafe(self._stall)

    def _stall(self) -> None:
        self._since_ms = self._run.hub.now_ms
        self._run.attempts[self._subtask].sleep_until(self._since_ms + self._lasts_ms)
        self._lag_ms = self._run.hub.now_ms - self._since_ms

    def ends(self) -> None:
        """It goes on by itself."""

    def evidence(self) -> Evidence:
        """How late its loop was."""
        if self._since_ms is None:
            return {}
        lag_ms = self._lag_ms or self._run.hub.now_ms - self._since_ms
        return {"subtask": self._subtask, "lag_ms": lag_ms} if lag_ms else {}


class ClockJump:
    """The wall clock is set: at once (`jump`), bit by bit (`smear`), or it stands still (`freeze`). Mutable."""

    settles_ms = 0

    def __init__(self, run: Simulation, *, how: str, shift_ms: int, lasts_ms: int | None) -> None:
        self._run = run
        self._how = how
        self._shift_ms = shift_ms
        self._lasts_ms = lasts_ms or 1
        self._by_ms = 0
        self._moved_ms = 0
        self._attempts = 0
        self._began_ms = 0
        self._next: Due | None = None

    def begins(self) -> None:
        """Whoever reads the clock reads something else."""
        hub = self._run.hub
        self._began_ms = hub.now_ms
        self._attempts = sum(attempt.actor.alive for attempt in self._run.attempts.values())
        if self._how == "jump":
            self._move(self._shift_ms)
        else:
            self._tick()

    def _tick(self) -> None:
        hub = self._run.hub
        past_ms = hub.now_ms - self._began_ms
        whole_ms = self._shift_ms * min(past_ms, self._lasts_ms) // self._lasts_ms
        self._move(-past_ms if self._how == "freeze" else whole_ms)
        self._next = hub.at(hub.now_ms + _TICK_MS, self._tick)

    def _move(self, by_ms: int) -> None:
        self._run.hub.wall_offset_ms += by_ms - self._by_ms
        self._by_ms = by_ms
        if abs(by_ms) > abs(self._moved_ms):
            self._moved_ms = by_ms

    def ends(self) -> None:
        """Somebody sets it right: a jump again."""
        if self._next is not None:
            self._run.hub.cancel(self._next)
        self._move(0)

    def evidence(self) -> Evidence:
        """How far it was off, and for how many attempts."""
        if not self._attempts or not self._moved_ms:
            return {}
        return {"offset_ms": self._moved_ms, "attempts": self._attempts}
