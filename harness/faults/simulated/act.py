"""An act: one activation of a fault in a simulated run, from its beginning to its evidence.

The counterpart of `OutsideFault.inject`. Invariants: evidence is what the act counted while it was active; a link act
applies to messages already in flight as well as to those sent later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from harness.levels.sim.link import Flight, Link

__all__ = [
    "LOST_CONNECTION",
    "REFUSED",
    "Act",
    "Evidence",
    "LinkAct",
    "OnLinks",
    "losses",
    "meet_all",
    "meet_requests",
    "meet_unarrived",
]


Evidence = dict[str, Any]


class Act(Protocol):
    """Begins once and ends once; simulated time passes in between."""

    @property
    def settles_ms(self) -> int:
        """How long after its end more evidence may come; 0: none comes."""

    def begins(self) -> None:
        """Activates it. If the attempt does it to itself, this may return only when the act is over."""

    def ends(self) -> None:
        """Heals it."""

    def evidence(self) -> Evidence:
        """What it counted so far; empty: nothing."""


class LinkAct(Protocol):
    """The behaviour of a fault on a simulated link while it is active."""

    def begins(self, link: Link) -> None:
        """Activates it on `link`, also for messages in flight."""

    def meets(self, link: Link, flight: Flight) -> None:
        """Called for each message sent: may change when and how it ends."""

    def ends(self, link: Link) -> None:
        """Heals it on `link`."""

    def evidence(self) -> Evidence:
        """What it counted; empty: nothing."""


class OnLinks:
    """One link act applied to several links."""

    settles_ms = 0

    def __init__(self, act: LinkAct, links: Sequence[Link]) -> None:
        self._act = act
        self._links = links

    def begins(self) -> None:
        for link in self._links:
            link.begin(self._act)

    def ends(self) -> None:
        for link in reversed(self._links):
            link.heal(self._act)

    def evidence(self) -> Evidence:
        return self._act.evidence()


LOST_CONNECTION: Final = 2013
"""The client's error code for a connection lost during a query."""
REFUSED: Final = 2003
"""The client's error code for a refused connect."""


def losses(codes: Counter[str]) -> dict[str, Any]:
    """The evidence of lost connections: how many, and how many by error code; empty if there are none."""
    some = {code: count for code, count in sorted(codes.items()) if count}
    return {"connections_lost": sum(some.values()), "codes": some} if some else {}


def meet_all(act: LinkAct, link: Link) -> None:
    """Applies `act` to every message in flight, in both directions."""
    for flight in link.flights:
        act.meets(link, flight)
        link.aim(flight)


def meet_requests(act: LinkAct, link: Link) -> None:
    """Applies `act` to requests that have not reached the server."""
    for flight in link.flights:
        if flight.is_asking(link.hub.now_ms):
            act.meets(link, flight)
            link.aim(flight)


def meet_unarrived(act: LinkAct, link: Link) -> None:
    """Applies `act` to requests before their arrival time, even if the server has begun to work on one."""
    for flight in link.flights:
        if flight.arrive_ms > link.hub.now_ms:
            act.meets(link, flight)
            link.aim(flight)
