"""`limit`: close each connection of a link after `bytes` bytes in one direction (Toxiproxy's `limit_data`).

Evidence: connections lost during the fault, with their error codes; if the proxy keeps a log, it closed some after
exactly that many bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from harness.faults.model.fault import Directed, LinkFault
from harness.faults.model.fields import Lasts, Size
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import Toxic
from harness.faults.simulated.acts import cut_losses, meet_all, meet_requests
from harness.faults.simulated.link_acts import OnReplies
from harness.system.json_types import Json

if TYPE_CHECKING:
    from harness.database.simulated.link import Flight, LinkAct, SimulatedConnection, SimulatedLink


class Limit(LinkFault, Directed):
    """Closes each connection after `bytes` bytes."""

    about = "Each connection of the link is closed after `bytes` more bytes in one direction."
    must_show = (
        "Connections were lost during the fault, with their error codes; the proxy closed some at the limit."
    )
    can = ("res",)

    do: Literal["limit"]
    lasts: Lasts
    bytes: Size

    def toxic(self) -> Toxic:
        """Counts bytes from now on, on live connections too."""
        return Toxic("limit_data", (self.stream,), {"bytes": self.bytes})

    def evidence(self, seen: Seen) -> Evidence:
        lost = seen.over(self.link).loss_evidence()
        if not lost or seen.log is None:
            return lost
        closed = [event for event in seen.did("limited", stream=self.stream) if event.bytes == self.bytes]
        return {**lost, "closed_at_the_limit": len(closed), "bytes": self.bytes} if closed else {}

    def on_links(self) -> LinkAct:
        return SimulatedLimit(bytes_max=self.bytes, upward=self.is_upward)


class SimulatedLimit(OnReplies):
    """Closes each simulated connection after `bytes_max` bytes in one direction. Mutable: counts."""

    def __init__(self, *, bytes_max: int, upward: bool) -> None:
        self._bytes_max = bytes_max
        self._upward = upward
        self._passed: dict[SimulatedConnection, int] = {}
        self._cut = 0

    def begins(self, link: SimulatedLink) -> None:
        """Counts the messages on their way, but for those that have crossed the link."""
        (meet_requests if self._upward else meet_all)(self, link)

    def on_message(self, link: SimulatedLink, flight: Flight) -> None:
        """Counts the message's bytes; at the limit its connection breaks."""
        if not flight.is_sound:
            return
        passed = self._passed.get(flight.connection, 0)
        begun = passed
        for packet in flight.packets():
            if packet.up is not self._upward:
                continue
            passed += packet.bytes
            if passed > self._bytes_max:
                self._cut += 1
                worked = not self._upward and not flight.is_handshake
                link.breaks(flight, worked=worked, passed=max(0, self._bytes_max - begun))
                break
        self._passed[flight.connection] = passed

    def evidence(self) -> Json:
        return cut_losses(self._cut)
