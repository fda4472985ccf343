"""What holds bytes up in one direction for a while.

Invariant: it counts the chunks that it held and for how long; whatever is held when it heals flows then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from harness.faults.simulated.under_way import meet_all, meet_unarrived

if TYPE_CHECKING:
    from harness.levels.sim.link import Flight, Link

__all__ = ["HoldMs", "Holding", "latency"]

HoldMs = Callable[["Link", "Flight"], int]
"""How long what a flight moves in one direction is held."""


class Holding:
    """What crosses the link in one direction is held for a while. Mutable: counts."""

    def __init__(self, hold_ms: HoldMs, *, upward: bool) -> None:
        self._hold_ms = hold_ms
        self._upward = upward
        self._chunks = 0
        self._held_ms = 0
        self._held: dict[Flight, int] = {}

    def begins(self, link: Link) -> None:
        """Live connections are affected at once."""
        (meet_unarrived if self._upward else meet_all)(self, link)

    def meets(self, link: Link, flight: Flight) -> None:
        """Hold one chunk of it."""
        if flight.due_ms is None or flight.doom is not None:
            return
        hold_ms = self._hold_ms(link, flight)
        if self._upward:
            link.delays_request(flight, hold_ms)
        flight.due_ms += hold_ms
        self._held[flight] = hold_ms
        self._chunks += 1
        self._held_ms += hold_ms

    def ends(self, link: Link) -> None:
        """What is held flows now."""
        now_ms = link.hub.now_ms
        for flight, hold_ms in self._held.items():
            if flight.over or flight.due_ms is None:
                continue
            if self._upward and flight.arrive_ms > now_ms:
                link.delays_request(flight, max(now_ms - flight.arrive_ms, -hold_ms))
            earlier_ms = max(now_ms, flight.arrive_ms, flight.due_ms - hold_ms)
            self._held_ms -= flight.due_ms - earlier_ms
            flight.due_ms = earlier_ms
            link.aim(flight)

    def evidence(self) -> dict[str, Any]:
        """How many chunks it held, and how long in all."""
        return {"chunks_held": self._chunks, "held_ms": self._held_ms} if self._held_ms > 0 else {}


def latency(*, delay_ms: int, jitter_ms: int, upward: bool) -> Holding:
    """Holds each simulated chunk for `delay_ms`, give or take `jitter_ms`; never for less than nothing."""

    def hold_ms(link: Link, flight: Flight) -> int:
        del flight
        return max(0, delay_ms + link.draw.between(-jitter_ms, jitter_ms))

    return Holding(hold_ms, upward=upward)
