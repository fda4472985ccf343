"""What is under way when a fault of a link begins: it is met as if it were sent now.

Invariant: whatever was met has its alarm set anew, for a fault may have moved its answer.
"""

from __future__ import annotations

from harness.sim.link import Link, LinkFault

__all__ = ["meet_all", "meet_requests", "meet_unarrived"]


def meet_all(fault: LinkFault, link: Link) -> None:
    """Whatever is on its way, there or back."""
    for flight in link.flights:
        fault.meets(link, flight)
        link.aim(flight)


def meet_requests(fault: LinkFault, link: Link) -> None:
    """What the server has not got yet."""
    for flight in link.flights:
        if flight.is_asking(link.hub.now_ms):
            fault.meets(link, flight)
            link.aim(flight)


def meet_unarrived(fault: LinkFault, link: Link) -> None:
    """What is still on its way there; the server may have begun to work for it."""
    for flight in link.flights:
        if flight.arrive_ms > link.hub.now_ms:
            fault.meets(link, flight)
            link.aim(flight)
