"""What ends connections, or lets none begin: down, flap, cut, reset, refused connects.

Answers to a proxy that is switched off and on, and to RST. Invariant: each counts the connections that it ended or
refused, by the error that their clients see.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from harness.levels.sim.hub import Due
from harness.sim.faults.under_way import meet_all
from harness.sim.link import LOST_CONNECTION, REFUSED, Connection, Flight, Link

__all__ = ["Cut", "Down", "Flap", "RefuseConnects", "Reset", "losses"]


def losses(codes: Counter[str]) -> dict[str, Any]:
    """Connections that were lost or refused, as evidence."""
    some = {code: count for code, count in sorted(codes.items()) if count}
    return {"connections_lost": sum(some.values()), "codes": some} if some else {}


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
        return losses(self._codes)


class Flap:
    """Down, up, down, up: closed for a while, open for a while, until it heals. Mutable: counts its cycles."""

    def __init__(self, *, open_ms: int, closed_ms: int) -> None:
        self._open_ms = open_ms
        self._closed_ms = closed_ms
        self._down = Down()
        self._is_closed = False
        self._next: Due | None = None
        self._cycles = 0
        self._since_ms = 0
        self._closed_for_ms = 0
        self._up_for_ms = 0

    def begins(self, link: Link) -> None:
        """It closes."""
        self._is_closed = True
        self._cycles += 1
        self._down.begins(link)
        self._turn(link, self._closed_ms)

    def _turn(self, link: Link, after_ms: int) -> None:
        self._since_ms = link.hub.now_ms
        self._next = link.hub.at(link.hub.now_ms + after_ms, lambda: self._flips(link))

    def _flips(self, link: Link) -> None:
        self._count(link)
        if self._is_closed:
            self._is_closed = False
            self._turn(link, self._open_ms)
        else:
            self.begins(link)

    def _count(self, link: Link) -> None:
        past_ms = link.hub.now_ms - self._since_ms
        if self._is_closed:
            self._closed_for_ms += past_ms
        else:
            self._up_for_ms += past_ms

    def meets(self, link: Link, flight: Flight) -> None:
        """Refuse it while it is closed."""
        if self._is_closed:
            self._down.meets(link, flight)

    def ends(self, link: Link) -> None:
        """It listens, and goes on doing so."""
        self._count(link)
        self._is_closed = False
        if self._next is not None:
            link.hub.cancel(self._next)

    def evidence(self) -> dict[str, Any]:
        """How often it closed, how long it was open, and what that cost."""
        found = self._down.evidence()
        if not found:
            return {}
        whole_ms = self._closed_for_ms + self._up_for_ms
        share = round(100 * self._up_for_ms / whole_ms) if whole_ms else 0
        return {"cycles": self._cycles, "open_percent": share, **found}


class Cut:
    """Ends what is connected at one instant, once; new connections are welcome. Mutable: counts."""

    def __init__(self) -> None:
        self._cut = 0

    def begins(self, link: Link) -> None:
        """All of it."""
        self._cut += link.cut()

    def meets(self, link: Link, flight: Flight) -> None:
        """It is over."""

    def ends(self, link: Link) -> None:
        """It was over at once."""

    def evidence(self) -> dict[str, Any]:
        """How many connections were cut."""
        return losses(Counter({str(LOST_CONNECTION): self._cut}))


class Reset:
    """Cuts a connection at the next bytes that flow back: a new one at the server's greeting. Counts."""

    def __init__(self) -> None:
        self._doomed: dict[Connection, None] = {}

    def begins(self, link: Link) -> None:
        """Live connections are affected at once."""
        meet_all(self, link)

    def meets(self, link: Link, flight: Flight) -> None:
        """It ends with its answer's first bytes; on a new connection no request was made by then."""
        if not flight.is_sound:
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
        return losses(Counter({str(LOST_CONNECTION): len(self._doomed)}))


class RefuseConnects:
    """Nobody listens; live connections go on. Mutable: counts."""

    def __init__(self) -> None:
        self._codes: Counter[str] = Counter()

    def begins(self, link: Link) -> None:
        """Who is connected stays so."""

    def meets(self, link: Link, flight: Flight) -> None:
        """A new connection is refused."""
        if flight.connection.fresh and flight.doom is None:
            self._codes[str(REFUSED)] += 1
            link.doom_at(flight, link.hub.now_ms + 1, REFUSED)

    def ends(self, link: Link) -> None:
        """It listens again."""

    def evidence(self) -> dict[str, Any]:
        """How many connects were refused."""
        return losses(self._codes)
