"""`half_open`: drop all bytes of one direction of a link, FIN and RST included; the other direction flows on.

Evidence: the proxy dropped bytes of that direction, and no call was answered during the fault: calls timed out, lost
their connection, or were still waiting. Healing resets the affected connections, so losses just after it count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from harness.faults.model.fault import Directed, LinkFault
from harness.faults.model.fields import Direction, Lasts
from harness.faults.real.evidence import NOTICE_US, Evidence, Seen
from harness.faults.real.fault_site import Toxic
from harness.faults.simulated.acts import meet_all, meet_unarrived
from harness.faults.simulated.link_acts import Swallowing, moved_bytes
from harness.system.json_types import Json

if TYPE_CHECKING:
    from harness.database.simulated.link import Flight, LinkAct, SimulatedLink


class HalfOpen(LinkFault, Directed):
    """Drops all bytes that flow in `stream`."""

    about = "One direction of the link drops all bytes, FIN and RST too; the other direction flows."
    must_show = (
        "The proxy dropped bytes in that direction; calls timed out, were lost or waited; none was answered."
    )
    abilities = ("packets",)
    can = ("res",)

    do: Literal["half_open"]
    lasts: Lasts
    direction: Direction

    def toxic(self) -> Toxic:
        """The peer that sends in the dropped direction gets no error."""
        return Toxic("half_open", (self.stream,), {})

    def evidence(self, seen: Seen) -> Evidence:
        of_link = seen.over(self.link)
        swallowed = seen.did("swallowed", stream=self.stream)
        amount = sum(event.bytes for event in swallowed)
        answered = [call for call in of_link.calls_within() if call.ending == "ok"]
        timed_out = sum(1 for call in of_link.during() if call.ending == "timeout")
        lost = of_link.losses_during(grace_us=NOTICE_US)
        waiting = len(of_link.waiting())
        if answered or not amount or not (timed_out or lost or waiting):
            return {}
        return {
            "bytes_swallowed": amount,
            "connections": len({event.connection: None for event in swallowed}),
            "timed_out": timed_out,
            "connections_lost": len(lost),
            "waiting_at_its_end": waiting,
            "answered": 0,
        }

    def on_links(self) -> LinkAct:
        return SimulatedHalfOpen(upward=self.is_upward)


class SimulatedHalfOpen:
    """Drops one direction of a simulated link, ends of connections too. Mutable: counts bytes."""

    def __init__(self, *, upward: bool) -> None:
        self._upward = self.swallows_requests = upward
        self._hole = Swallowing(upward=upward, downward=not upward)
        self._bytes = {True: 0, False: 0}

    def begins(self, link: SimulatedLink) -> None:
        (meet_unarrived if self._upward else meet_all)(self, link)

    def on_message(self, link: SimulatedLink, flight: Flight) -> None:
        """Counts the bytes of both directions; of a new connection's handshake only what was sent before the loss."""
        if flight.doom is not None:
            return
        for up in self._bytes:
            crosses = up is self._upward or not (flight.connection.fresh or self._upward)
            if crosses:
                self._bytes[up] += moved_bytes(flight, up=up)
        self._hole.on_message(link, flight)

    def ends(self, link: SimulatedLink) -> None:
        """The affected connections are reset, because bytes are missing from their streams."""
        self._hole.ends(link)

    def evidence(self) -> Json:
        found = self._hole.evidence()
        if not found:
            return {}
        return {
            "chunks_swallowed": found["chunks_swallowed"],
            "bytes_swallowed": self._bytes[self._upward],
            "bytes_of_the_other_direction": self._bytes[not self._upward],
            "connections_reset": found["connections_cut"],
        }
