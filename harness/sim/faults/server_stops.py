"""The simulated server as a process: killed and started again, shut down in order, stopped and let go on.

Answers to SIGKILL, SIGTERM and SIGSTOP of a database server. Invariant: what was committed before it went is there
when it is back, and nothing else; sessions do not outlive it; each counts whom it met.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from harness.sim.faults.cuts import losses
from harness.sim.link import LOST_CONNECTION, REFUSED, Flight, Link

__all__ = ["BACK_AFTER_MS", "Gone", "Paused"]

BACK_AFTER_MS: Final = 400
"""From its end to when it answers again, if nobody keeps it down for longer."""
_SHUTS_DOWN: Final = 1053


class Gone:
    """The server is killed, or shut down in order, and started when this heals. Mutable: counts."""

    def __init__(self, *, in_order: bool) -> None:
        self._in_order = in_order
        self._codes: Counter[str] = Counter()

    def begins(self, link: Link) -> None:
        """Every session ends; a statement that comes now is told why, if there is time to."""
        if self._in_order:
            for flight in [one for one in link.flights if one.is_asking(link.hub.now_ms)]:
                self._codes[str(_SHUTS_DOWN)] += 1
                link.breaks(flight, worked=False, code=_SHUTS_DOWN)
                link.aim(flight)
        told = {flight.connection for flight in link.flights if flight.doom == _SHUTS_DOWN}
        for connection in link.connections:
            if connection not in told:
                self._codes[str(LOST_CONNECTION)] += 1
                link.cut_off(connection)

    def meets(self, link: Link, flight: Flight) -> None:
        """Through a proxy it is connected and hung up on; past it, refused."""
        code = REFUSED if link.is_direct else LOST_CONNECTION
        self._codes[str(code)] += 1
        link.never_arrives(flight)
        flight.work = None
        link.doom_at(flight, link.hub.now_ms + 1, code)

    def ends(self, link: Link) -> None:
        """It is back, and knows nobody."""

    def evidence(self) -> dict[str, Any]:
        """That it was started once more, and who noticed."""
        found = losses(self._codes)
        return {"starts": 1, "in_order": self._in_order, **found} if found else {}


class Paused:
    """SIGSTOP: the kernel accepts for it, nobody answers. Mutable: counts."""

    def __init__(self) -> None:
        self._held: dict[Flight, tuple[int, int]] = {}
        self._lost_patience = 0

    def begins(self, link: Link) -> None:
        """What it is doing stands still."""
        for flight in link.flights:
            self.meets(link, flight)
            link.aim(flight)

    def meets(self, link: Link, flight: Flight) -> None:
        """It waits, with what is left to do."""
        left_ms = link.holds(flight)
        if left_ms is not None:
            self._held[flight] = left_ms

    def ends(self, link: Link) -> None:
        """It goes on; of a request that nobody waits for any more it may still do the work."""
        for flight, left_ms in self._held.items():
            if flight.connection.link is not link:
                continue
            if not flight.over:
                link.goes_on(flight, left_ms)
                continue
            self._lost_patience += 1
            if flight.held and flight.work is not None and link.draw.bits(1):
                flight.work()

    def evidence(self) -> dict[str, Any]:
        """How many requests it kept waiting, and how many clients lost patience."""
        held = len(self._held)
        return {"requests_held": held, "lost_patience": self._lost_patience} if held else {}
