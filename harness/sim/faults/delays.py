"""What holds bytes up: latency, jitter, a narrow band, a slow loris.

Answers to Toxiproxy's `latency`, `bandwidth` and `slicer`. Invariant: each counts the chunks that it held and for how
long; whatever is held when it heals flows then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.sim.faults.under_way import meet_all, meet_unarrived
from harness.sim.link import Flight, Link
from harness.sim.wire import bytes_of

__all__ = ["Delay", "bandwidth", "latency", "slow_loris"]

HoldMs = Callable[[Link, Flight], int]
"""How long what a flight moves in one direction is held."""


class Delay:
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
            flight.arrive_ms += hold_ms
            if flight.arrival is not None:
                link.never_arrives(flight)
                link.arrives(flight)
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
            earlier_ms = max(now_ms, flight.arrive_ms, flight.due_ms - hold_ms)
            self._held_ms -= flight.due_ms - earlier_ms
            flight.due_ms = earlier_ms
            link.aim(flight)

    def evidence(self) -> dict[str, Any]:
        """How many chunks it held, and how long in all."""
        return {"chunks_held": self._chunks, "held_ms": self._held_ms} if self._held_ms > 0 else {}


def latency(*, delay_ms: int, jitter_ms: int, upward: bool) -> Delay:
    """`delay_ms`, give or take `jitter_ms`; without a delay never less than none."""

    def hold_ms(link: Link, flight: Flight) -> int:
        del flight
        return max(0, delay_ms + link.draw.between(-jitter_ms, jitter_ms))

    return Delay(hold_ms, upward=upward)


def bandwidth(*, kilobytes_per_s: int, upward: bool) -> Delay:
    """A kilobyte is a thousand bytes, and moves in a millisecond of `kilobytes_per_s` of 1000."""

    def hold_ms(link: Link, flight: Flight) -> int:
        return -(-_moved(link, flight, upward=upward) // kilobytes_per_s)

    return Delay(hold_ms, upward=upward)


def slow_loris(*, slice_bytes: int, gap_ms: int, upward: bool) -> Delay:
    """A few bytes, then a pause, during the handshake, the header and the rows."""

    def hold_ms(link: Link, flight: Flight) -> int:
        slices = -(-_moved(link, flight, upward=upward) // slice_bytes)
        return (slices - 1) * gap_ms

    return Delay(hold_ms, upward=upward)


def _moved(link: Link, flight: Flight, *, upward: bool) -> int:
    return bytes_of(flight.says, fresh=flight.connection.fresh, up=upward, row_bytes=link.row_bytes)
