"""The acts of faults on simulated links: hold bytes, swallow bytes, shut the port, pick messages.

Answers to Toxiproxy's toxics and to the packet rules of our own proxy (`harness.proxy.mysql`). Each act
counts what it held, swallowed, ended or refused. A flight is one statement; the handshake of a new connection
is a flight of its own. Messages are counted in the order in which they are sent since the fault began, over
all connections of the link.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from harness.faults.simulated.act import losses, meet_all, meet_unarrived
from harness.simulation.replies import LOST_CONNECTION, REFUSED

if TYPE_CHECKING:
    from harness.faults.real.fault_site import Messages
    from harness.simulation.link import Flight, Link

__all__ = [
    "HoldMs",
    "Holding",
    "Picks",
    "ShutPort",
    "Swallowing",
    "command_of",
    "latency",
    "moved_bytes",
    "picks_of",
]


def command_of(flight: Flight) -> str:
    """Of its statement: `handshake`, `commit`, `rollback` or `query`."""
    return flight.statement.kinds[0]


def moved_bytes(flight: Flight, *, up: bool) -> int:
    """The bytes that it moves in one direction."""
    return sum(packet.bytes for packet in flight.packets() if packet.up is up)


class Picks:
    """From the `nth` message that fits, so many `times`. Mutable: counts."""

    def __init__(self, messages: Messages, *, packets_min: int = 1) -> None:
        self._messages = messages
        self._statement = messages.statement.casefold()
        self._packets_min = packets_min
        """Of the answer: a message that has fewer does not fit."""
        self._met = 0
        self._picked = 0

    def take(self, flight: Flight) -> bool:
        """Whether it is one to act on; counts it."""
        if not self._fits(flight):
            return False
        self._met += 1
        if self._met < self._messages.nth or self._picked >= self._messages.times:
            return False
        self._picked += 1
        return True

    def _fits(self, flight: Flight) -> bool:
        statement = flight.statement
        of_command = self._messages.command == "any" or self._messages.command in statement.kinds
        is_long = len(statement.answers) >= self._packets_min
        return of_command and is_long and statement.text.casefold().lstrip().startswith(self._statement)


def picks_of(messages: Messages, *, packets_min: int = 1) -> Picks:
    """The messages that a scenario's entry picks."""
    return Picks(messages, packets_min=packets_min)


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


_CHUNK_BYTES = 96
"""Of one request or answer, about; to be counted, not to be measured."""


class Swallowing:
    """Swallows one direction, or both; connections stay open, and healing cuts those that have a hole. Counts."""

    def __init__(self, *, upward: bool, downward: bool) -> None:
        self._upward = upward
        self._downward = downward
        self.swallows_requests = upward
        """The server does not hear that a client has hung up."""
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
        flight.kept, flight.swallowed, flight.due_ms = True, True, None
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


class ShutPort:
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
        return losses(self._codes)
