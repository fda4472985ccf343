"""The clock of blocking code at level sim: the hub's virtual time, in which a pause stops the actor."""

from __future__ import annotations

from collections.abc import Callable

from harness.levels.sim.hub import Actor, Hub

__all__ = ["SimulatedClock"]


class SimulatedClock:
    """A `harness.clock.Clock`. `catch_up` sets the attempt's event loop to now after a pause."""

    def __init__(self, hub: Hub, *, actor: Callable[[], Actor], catch_up: Callable[[], None]) -> None:
        self._hub = hub
        self._actor = actor
        self._catch_up = catch_up

    def now_us(self) -> int:
        """See `Clock`."""
        return self._hub.now_ms * 1000

    def pause(self, seconds: float) -> None:
        """See `Clock`; virtual time has whole milliseconds."""
        self._actor().sleep_until(self._hub.now_ms + max(1, round(seconds * 1000)))
        self._catch_up()
