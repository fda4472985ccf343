"""`half_open`: one direction of a link goes silent, FIN and RST included; the other direction flows on.

Evidence: the proxy swallowed bytes of that direction, and while it lasted no call was answered: some timed out, lost
their connection, or were still waiting. Healing resets the connections that were swallowed, so losses just after count.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal

from harness.faults.model.fault import Directed, LinkFault
from harness.faults.model.fields import Direction, Lasts
from harness.faults.real.evidence import NOTICE_US, Evidence, Seen
from harness.faults.real.fault_site import Site, toxics_on
from harness.faults.simulated.act import LinkAct, meet_all, meet_unarrived
from harness.faults.simulated.link_acts import Swallowing, moved_bytes

if TYPE_CHECKING:
    from harness.levels.sim.link import Flight, Link

__all__ = ["HalfOpen", "SimulatedHalfOpen"]


class HalfOpen(LinkFault, Directed):
    """Swallows everything that flows in `stream`."""

    about = "One direction of the link swallows everything, the ends of connections too; the other one flows."
    must_show = (
        "The proxy swallowed bytes that way; calls timed out, were lost or waited, and none was answered."
    )
    abilities = ("packets",)

    do: Literal["half_open"]
    lasts: Lasts
    direction: Direction

    def inject(self, site: Site) -> AbstractContextManager[None]:
        """The peer that sends in the silent direction learns nothing."""
        return toxics_on(
            site.control, self.link, name=self.id, type="half_open", streams=(self.stream,), attributes={}
        )

    def evidence(self, seen: Seen) -> Evidence:
        """What was swallowed, and whom that left without an answer; empty if a call was answered nevertheless."""
        of_link = seen.over(self.link)
        swallowed = seen.did("swallowed", stream=self.stream)
        amount = sum(deed.bytes for deed in swallowed)
        answered = [call for call in of_link.inside() if call.ending == "ok"]
        timed_out = sum(1 for call in of_link.during() if call.ending == "timeout")
        lost = of_link.losses_during(grace_us=NOTICE_US)
        waiting = len(of_link.waiting())
        if answered or not amount or not (timed_out or lost or waiting):
            return {}
        return {
            "bytes_swallowed": amount,
            "connections": len({deed.connection: None for deed in swallowed}),
            "timed_out": timed_out,
            "connections_lost": len(lost),
            "waiting_at_its_end": waiting,
            "answered": 0,
        }

    def on_links(self) -> LinkAct:
        return SimulatedHalfOpen(upward=self.is_upward)


class SimulatedHalfOpen:
    """Swallows one direction, its end too; the other flows, and the far side never learns. Mutable: counts."""

    def __init__(self, *, upward: bool) -> None:
        self._upward = self.swallows_requests = upward
        self._hole = Swallowing(upward=upward, downward=not upward)
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
                self._bytes[up] += moved_bytes(flight, up=up)
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
