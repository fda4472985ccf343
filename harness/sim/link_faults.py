"""The faults of scenario files on a simulated link: latency, blackhole, down, reset.

Answers to the toxics of Toxiproxy, and to what they do to a MySQL client (`docs/references.md`, Measured).
Invariant: each counts what it did to chunks and connections; a fault that met nothing has no evidence.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from harness.scenario import Fault
from harness.sim.link import LOST_CONNECTION, REFUSED, Connection, Flight, Link, LinkFault

__all__ = ["Blackhole", "Down", "Latency", "Reset", "link_fault"]

_CHUNK_BYTES = 96
"""Of one request or answer, about; to be counted, not to be measured."""


class Latency:
    """Every chunk of one direction is held for a while. Mutable: counts."""

    def __init__(self, *, delay_ms: int, jitter_ms: int, upward: bool) -> None:
        self._delay_ms = delay_ms
        self._jitter_ms = jitter_ms
        self._upward = upward
        self._chunks = 0
        self._held_ms = 0
        self._held: dict[Flight, int] = {}

    def begins(self, link: Link) -> None:
        """Live connections are affected at once."""
        for flight in link.flights:
            if not self._upward or flight.arrive_ms > link.hub.now_ms:
                self.meets(link, flight)
                link.aim(flight)

    def meets(self, link: Link, flight: Flight) -> None:
        """Hold one chunk of it."""
        if flight.due_ms is None or flight.doom is not None:
            return
        hold_ms = self._delay_ms + link.draw.between(-self._jitter_ms, self._jitter_ms)
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


class Blackhole:
    """Swallows one direction, or both; connections stay open, and healing cuts those that have a hole. Counts."""

    def __init__(self, *, upward: bool, downward: bool) -> None:
        self._upward = upward
        self._downward = downward
        self._swallowed: dict[Flight, None] = {}
        self._cut = 0

    def begins(self, link: Link) -> None:
        """Live connections are affected at once."""
        for flight in link.flights:
            if self._downward or flight.arrive_ms > link.hub.now_ms:
                self.meets(link, flight)
                link.aim(flight)

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


class Down:
    """Cuts every connection and refuses new ones. Mutable: counts."""

    def __init__(self) -> None:
        self._codes: Counter[str] = Counter()

    def begins(self, link: Link) -> None:
        """Live connections are cut at once, idle ones too."""
        self._codes[str(LOST_CONNECTION)] += link.cut()

    def meets(self, link: Link, flight: Flight) -> None:
        """Refuse it."""
        self._codes[str(REFUSED)] += 1
        link.doom_at(flight, link.hub.now_ms + 1, REFUSED)

    def ends(self, link: Link) -> None:
        """It listens again."""

    def evidence(self) -> dict[str, Any]:
        """How many connections were lost or refused, by error code."""
        codes = {code: count for code, count in sorted(self._codes.items()) if count}
        return {"connections_lost": sum(codes.values()), "codes": codes} if codes else {}


class Reset:
    """Cuts a connection at the next bytes that flow back: a new one at the server's greeting. Counts."""

    def __init__(self) -> None:
        self._doomed: dict[Connection, None] = {}

    def begins(self, link: Link) -> None:
        """Live connections are affected at once."""
        for flight in link.flights:
            self.meets(link, flight)
            link.aim(flight)

    def meets(self, link: Link, flight: Flight) -> None:
        """It ends with its answer's first bytes; on a new connection no request was made by then."""
        if flight.due_ms is None or flight.doom is not None:
            return
        connection = flight.connection
        if connection.fresh:
            link.never_arrives(flight)
            flight.work = None
            flight.due_ms = link.hub.now_ms + 1
        flight.doom = LOST_CONNECTION
        self._doomed[connection] = None

    def ends(self, link: Link) -> None:
        """Answers that are on their way still end their connections: they were cut when they were sent."""

    def evidence(self) -> dict[str, Any]:
        """How many connections were cut."""
        cut = len(self._doomed)
        return {"connections_lost": cut, "codes": {str(LOST_CONNECTION): cut}} if cut else {}


def link_fault(fault: Fault) -> LinkFault:
    """What a scenario's entry names."""
    match fault.do:
        case "latency":
            return Latency(
                delay_ms=fault.delay or 0, jitter_ms=fault.jitter or 0, upward=fault.direction == "up"
            )
        case "blackhole":
            return Blackhole(upward=fault.direction != "down", downward=fault.direction != "up")
        case "down":
            return Down()
        case "reset":
            return Reset()
        case "kill_worker":
            message = f"fault {fault.id} kills a worker; it acts on no link"
            raise AssertionError(message)
