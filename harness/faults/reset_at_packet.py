"""`reset_at_packet`: a connection is reset at the n-th packet of a message, or inside it, after exactly so many bytes.

Evidence: the proxy's resets, each with the byte of the stream at which it came, and connections that clients lost.
"""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal

from harness.faults.model.fault import Directed, MessageFault
from harness.faults.model.fields import Packet, Size, UntilEffective
from harness.faults.real.evidence import NOTICE_US, Evidence, Seen, loss_evidence
from harness.faults.real.fault_site import Site, packets_on
from harness.faults.simulated.act import LOST_CONNECTION, LinkAct, losses, meet_all
from harness.faults.simulated.link_acts import Picks, picks_of

if TYPE_CHECKING:
    from harness.levels.sim.link import Flight, Link

__all__ = ["ResetAtPacket", "SimulatedReset"]


class ResetAtPacket(MessageFault, Directed):
    """Lets through what comes before packet `packet` of a message, and `bytes` bytes of it (absent: none)."""

    about = (
        "A connection is reset at the n-th packet of a message (replies to queries, if no other), or "
        "inside it."
    )
    must_show = (
        "The proxy reset connections, and says after how many bytes; clients lost them, with their "
        "error codes."
    )

    do: Literal["reset_at_packet"]
    lasts: UntilEffective = None
    packet: Packet = 1
    bytes: Size | None = None

    def inject(self, site: Site) -> AbstractContextManager[None]:
        """Messages are counted from now on, live connections' too."""
        return packets_on(
            site.control,
            self.link,
            self.messages,
            name=self.id,
            stream=self.stream,
            do="reset",
            packet=self.packet,
            byte=-1 if self.bytes is None else self.bytes,
        )

    def evidence(self, seen: Seen) -> Evidence:
        """Where each reset came, and how many clients noticed, by error code."""
        resets = seen.did("reset", stream=self.stream)
        lost = loss_evidence(seen.over(self.link), grace_us=NOTICE_US)
        if not resets or not lost:
            return {}
        return {**lost, "resets": len(resets), "at_bytes": [deed.more["offset"] for deed in resets]}

    def on_links(self) -> LinkAct:
        return SimulatedReset(
            picks_of(self.messages, packets_min=1 if self.is_upward else self.packet),
            upward=self.is_upward,
            packet=self.packet,
            inside=self.bytes or 0,
        )


class SimulatedReset:
    """RST at a packet of the messages that it picks, or at a byte inside of it. Mutable: counts."""

    def __init__(self, picks: Picks, *, upward: bool, packet: int, inside: int) -> None:
        self._picks = picks
        self._upward = upward
        self._packet = packet
        self._inside = inside
        self._cut: dict[Flight, int] = {}
        """And how many bytes of the message had passed."""

    def begins(self, link: Link) -> None:
        """What is on its way back is met too."""
        if not self._upward:
            meet_all(self, link)

    def meets(self, link: Link, flight: Flight) -> None:
        """Break it, if it is one that is meant."""
        if not flight.is_sound or not self._picks.take(flight):
            return
        statement = flight.statement
        sizes = (statement.asks,) if self._upward else statement.answers
        whole = sizes[: min(self._packet, len(sizes)) - 1]
        self._cut[flight] = sum(whole) + min(self._inside, sizes[len(whole)])
        link.breaks(flight, worked=not self._upward and not flight.is_handshake)

    def ends(self, link: Link) -> None:
        """What was broken stays broken."""

    def evidence(self) -> dict[str, Any]:
        """How many connections were reset, and behind how many bytes of the message."""
        if not self._cut:
            return {}
        passed = Counter(self._cut.values())
        return {
            **losses(Counter({str(LOST_CONNECTION): len(self._cut)})),
            "bytes_passed": {str(size): count for size, count in sorted(passed.items())},
        }
