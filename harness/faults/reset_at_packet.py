"""`reset_at_packet`: reset a connection at packet `packet` of a message, or after `bytes` bytes of that packet.

Evidence: the proxy's resets, each with its byte offset in the stream, and connections that clients lost.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal

from harness.faults.model.fault import Directed, MessageFault
from harness.faults.model.fields import Packet, Size, UntilEffective
from harness.faults.real.evidence import NOTICE_US, Evidence, Seen
from harness.faults.real.fault_site import Toxic
from harness.faults.simulated.acts import cut_losses, meet_all
from harness.faults.simulated.link_acts import OnReplies, Picks
from harness.system.json_types import Json

if TYPE_CHECKING:
    from harness.database.simulated.link import Flight, LinkAct, SimulatedLink


class ResetAtPacket(MessageFault, Directed):
    """Passes the packets before `packet` and `bytes` bytes of it (absent: none), then resets the connection."""

    about = (
        "A connection is reset at packet `packet` of a message (by default of replies to queries), or after "
        "`bytes` bytes of it."
    )
    must_show = (
        "The proxy reset connections, with the byte offset of each; clients lost them, with their error "
        "codes."
    )
    can = ("res",)

    do: Literal["reset_at_packet"]
    lasts: UntilEffective = None
    packet: Packet = 1
    bytes: Size | None = None

    def toxic(self) -> Toxic:
        """Counts messages from now on, on live connections too."""
        byte = -1 if self.bytes is None else self.bytes
        return self.messages.toxic(self.stream, "reset", packet=self.packet, byte=byte)

    def evidence(self, seen: Seen) -> Evidence:
        resets = seen.did("reset", stream=self.stream)
        lost = seen.over(self.link).loss_evidence(grace_us=NOTICE_US)
        if not resets or not lost:
            return {}
        return {**lost, "resets": len(resets), "at_bytes": [event.more["offset"] for event in resets]}

    def on_links(self) -> LinkAct:
        return SimulatedResetAtPacket(
            Picks(self.messages, packets_min=1 if self.is_upward else self.packet),
            upward=self.is_upward,
            packet=self.packet,
            inside=self.bytes or 0,
        )


class SimulatedResetAtPacket(OnReplies):
    """Breaks simulated connections at a packet of the selected messages, or inside it. Mutable: counts."""

    def __init__(self, picks: Picks, *, upward: bool, packet: int, inside: int) -> None:
        self._picks = picks
        self._upward = upward
        self._packet = packet
        self._inside = inside
        self._cut: dict[Flight, int] = {}
        """The messages that were cut, and how many of their bytes had passed."""

    def begins(self, link: SimulatedLink) -> None:
        """Applies to replies that are already on their way."""
        if not self._upward:
            meet_all(self, link)

    def on_message(self, link: SimulatedLink, flight: Flight) -> None:
        """Breaks the connection if the message is selected."""
        if not flight.is_sound or not self._picks.take(flight):
            return
        statement = flight.statement
        sizes = (statement.asks,) if self._upward else statement.answers
        whole = sizes[: min(self._packet, len(sizes)) - 1]
        self._cut[flight] = sum(whole) + min(self._inside, sizes[len(whole)])
        worked = not self._upward and not flight.is_handshake
        link.breaks(flight, worked=worked, passed=self._cut[flight])

    def evidence(self) -> Json:
        if not self._cut:
            return {}
        passed = Counter(self._cut.values())
        return {
            **cut_losses(len(self._cut)),
            "bytes_passed": {str(size): count for size, count in sorted(passed.items())},
        }
