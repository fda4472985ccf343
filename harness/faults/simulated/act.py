"""An act: one time that a fault of a scenario acts in a simulated run, from its beginning to its evidence.

The counterpart of `OutsideFault.inject`. What `evidence` tells was counted by the act while it lasted; an act
that met nothing has none. When a fault of a link begins, it applies to what is under way as to what is sent
later; the alarm of each flight that it met is set anew.
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
    """Begun once and ended once; the hub's time passes in between."""

    @property
    def settles_ms(self) -> int:
        """How long after its end there may be more to tell; 0: nothing comes after."""

    def begins(self) -> None:
        """From now on. Where an attempt does it to itself, this may return only when it is over."""

    def ends(self) -> None:
        """It is healed."""

    def evidence(self) -> Evidence:
        """What it did so far; empty: nothing."""


class LinkAct(Protocol):
    """What acts on simulated links while it lasts."""

    def begins(self, link: Link) -> None:
        """It acts from now on, and on what is on its way."""

    def meets(self, link: Link, flight: Flight) -> None:
        """A request is sent: change when, or how, it ends."""

    def ends(self, link: Link) -> None:
        """It is healed."""

    def evidence(self) -> Evidence:
        """What it did; empty: nothing."""


class OnLinks:
    """A link act on several links."""

    settles_ms = 0

    def __init__(self, act: LinkAct, links: Sequence[Link]) -> None:
        self._act = act
        self._links = links

    def begins(self) -> None:
        """On each in turn."""
        for link in self._links:
            link.begin(self._act)

    def ends(self) -> None:
        """In the reverse order."""
        for link in reversed(self._links):
            link.heal(self._act)

    def evidence(self) -> Evidence:
        """Of all of them."""
        return self._act.evidence()


LOST_CONNECTION: Final = 2013
"""The client's error for a connection that ended under it."""
REFUSED: Final = 2003
"""The client's error for a connect that was refused."""


def losses(codes: Counter[str]) -> dict[str, Any]:
    """How many in all, and how many by each error code; empty if there are none."""
    some = {code: count for code, count in sorted(codes.items()) if count}
    return {"connections_lost": sum(some.values()), "codes": some} if some else {}


def meet_all(act: LinkAct, link: Link) -> None:
    """Everything on its way, there or back."""
    for flight in link.flights:
        act.meets(link, flight)
        link.aim(flight)


def meet_requests(act: LinkAct, link: Link) -> None:
    """Requests that the server has not got yet."""
    for flight in link.flights:
        if flight.is_asking(link.hub.now_ms):
            act.meets(link, flight)
            link.aim(flight)


def meet_unarrived(act: LinkAct, link: Link) -> None:
    """Requests that are still on their way; the server may have begun to work for one."""
    for flight in link.flights:
        if flight.arrive_ms > link.hub.now_ms:
            act.meets(link, flight)
            link.aim(flight)
