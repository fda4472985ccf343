"""What swallows bytes and says nothing: the black hole, the half-open connection, the handshake that stalls.

Answers to Toxiproxy's `timeout`, and to a peer that is gone without a word. Invariant: each counts what it swallowed;
connections stay open while it lasts, and healing ends those that have a hole.
"""

from __future__ import annotations

from typing import Any

from harness.sim.faults.under_way import meet_all, meet_requests, meet_unarrived
from harness.sim.link import LOST_CONNECTION, Flight, Link
from harness.sim.wire import bytes_of

__all__ = ["Blackhole", "HalfOpen", "StalledHandshake"]

_CHUNK_BYTES = 96
"""Of one request or answer, about; to be counted, not to be measured."""


class Blackhole:
    """Swallows one direction, or both; connections stay open, and healing cuts those that have a hole. Counts."""

    def __init__(self, *, upward: bool, downward: bool) -> None:
        self._upward = upward
        self._downward = downward
        self._swallowed: dict[Flight, None] = {}
        self._cut = 0

    def begins(self, link: Link) -> None:
        """Live connections are affected at once."""
        (meet_all if self._downward else meet_unarrived)(self, link)

    def meets(self, link: Link, flight: Flight) -> None:
        """Let no answer come of it."""
        if flight.doom is not None:
            return
        if self._upward or flight.connection.fresh:  # without a greeting there is no request either
            link.never_arrives(flight)
            flight.work = None
        flight.due_ms = None
        self._swallowed[flight] = None

    def ends(self, link: Link) -> None:
        """Its connections are closed: their streams have holes."""
        for flight in self._swallowed:
            if not flight.over:
                self._cut += 1
                link.lose(flight, LOST_CONNECTION)

    def evidence(self) -> dict[str, Any]:
        """How much it swallowed."""
        chunks = len(self._swallowed)
        if not chunks:
            return {}
        return {
            "chunks_swallowed": chunks,
            "bytes_swallowed": chunks * _CHUNK_BYTES,
            "connections_cut": self._cut,
            "answered": 0,
        }


class HalfOpen:
    """Swallows one direction, its end too; the other flows, and the far side never learns. Mutable: counts."""

    def __init__(self, *, upward: bool) -> None:
        self._upward = upward
        self._hole = Blackhole(upward=upward, downward=not upward)
        self._bytes = {True: 0, False: 0}

    def begins(self, link: Link) -> None:
        """Live connections are affected at once."""
        (meet_unarrived if self._upward else meet_all)(self, link)

    def meets(self, link: Link, flight: Flight) -> None:
        """One half of it is lost; of a new connection's handshake the other half is what there is of it by then."""
        if flight.doom is not None:
            return
        for up in self._bytes:
            crosses = up is self._upward or not (flight.connection.fresh or self._upward)
            if crosses:
                self._bytes[up] += bytes_of(flight.says, fresh=flight.connection.fresh, up=up)
        self._hole.meets(link, flight)

    def ends(self, link: Link) -> None:
        """Its connections are reset: their streams have holes."""
        self._hole.ends(link)

    def evidence(self) -> dict[str, Any]:
        """What it swallowed in its direction, and what flowed in the other."""
        found = self._hole.evidence()
        if not found:
            return {}
        return {
            "chunks_swallowed": found["chunks_swallowed"],
            "bytes_swallowed": self._bytes[self._upward],
            "bytes_of_the_other_direction": self._bytes[not self._upward],
            "connections_reset": found["connections_cut"],
        }


class StalledHandshake:
    """New connections are accepted and not greeted, until it heals; live ones go on. Mutable: counts."""

    def __init__(self) -> None:
        self._waiting: dict[Flight, tuple[int, int]] = {}
        """And in how many ms each would have arrived, and been answered."""
        self._greeted_late = 0

    def begins(self, link: Link) -> None:
        """What is being greeted stalls too."""
        meet_requests(self, link)

    def meets(self, link: Link, flight: Flight) -> None:
        """A new connection's first request waits for the greeting."""
        left_ms = link.holds(flight) if flight.connection.fresh else None
        if left_ms is not None:
            self._waiting[flight] = left_ms

    def ends(self, link: Link) -> None:
        """Who still waits is greeted now."""
        for flight, left_ms in self._waiting.items():
            self._greeted_late += not flight.over
            link.goes_on(flight, left_ms)

    def evidence(self) -> dict[str, Any]:
        """How many handshakes stalled, and how many of them were worth waiting for."""
        stalled = len(self._waiting)
        return {"handshakes_stalled": stalled, "greeted_late": self._greeted_late} if stalled else {}
