"""What is under way when a fault of a link begins: applies the fault to it as to what is sent from then on.

Invariant: the alarm of each flight that was met is set anew, for a fault may have moved its answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.faults.simulated.act import LinkAct
    from harness.levels.sim.link import Link

__all__ = ["meet_all", "meet_requests", "meet_unarrived"]


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
