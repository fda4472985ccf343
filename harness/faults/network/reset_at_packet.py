"""`reset_at_packet`: a connection is reset at the n-th packet of a message, or inside it, after exactly so many bytes.

Evidence: the proxy's resets, each with the byte of the stream at which it came, and connections that clients lost.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

from harness.faults.fault import Site
from harness.faults.kind import FaultKind
from harness.faults.network.packet_toxic import Messages, messages_of, packets_on
from harness.faults.network.toxics import link_of, stream_of
from harness.faults.seen import NOTICE_US, Evidence, Seen, loss_evidence
from harness.scenario import Fault

__all__ = ["KIND", "ResetAtPacket"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetAtPacket:
    """Lets through what comes before packet `packet` of a message, and `byte` bytes of it (-1: none)."""

    name: str
    link: str
    stream: str
    messages: Messages
    packet: int
    byte: int

    def inject(self, site: Site) -> AbstractContextManager[None]:
        """Messages are counted from now on, live connections' too."""
        return packets_on(
            site.control,
            self.link,
            self.messages,
            name=self.name,
            stream=self.stream,
            do="reset",
            packet=self.packet,
            byte=self.byte,
        )

    def evidence(self, seen: Seen) -> Evidence:
        """Where each reset came, and how many clients noticed, by error code."""
        resets = seen.did("reset", stream=self.stream)
        lost = loss_evidence(seen.over(self.link), grace_us=NOTICE_US)
        if not resets or not lost:
            return {}
        return {**lost, "resets": len(resets), "at_bytes": [deed.more["offset"] for deed in resets]}


def _made(fault: Fault, _seed: int) -> ResetAtPacket:
    return ResetAtPacket(
        name=fault.id,
        link=link_of(fault),
        stream=stream_of(fault),
        messages=messages_of(fault, command="query"),
        packet=fault.packet or 1,
        byte=-1 if fault.bytes is None else fault.bytes,
    )


KIND = FaultKind(
    name="reset_at_packet",
    about="A connection is reset at the n-th packet of a message (replies to queries, if no other), or inside it.",
    evidence="The proxy reset connections, and says after how many bytes; clients lost them, with their error codes.",
    outside=_made,
)
