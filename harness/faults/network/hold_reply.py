"""`hold_reply`: the answer to one message is held, whole or from its n-th packet on; other connections are served.

Evidence: the proxy held answers, and calls were still waiting when it healed, had timed out, or lost their connection.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

from harness.faults.fault import Site
from harness.faults.kind import FaultKind
from harness.faults.network.packet_toxic import Messages, messages_of, packets_on
from harness.faults.network.toxics import link_of
from harness.faults.seen import Evidence, Seen
from harness.scenario import Fault

__all__ = ["KIND", "HoldReply"]

_STREAM = "downstream"


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldReply:
    """Holds what answers `messages`, from packet `packet` on (0: all of it)."""

    name: str
    link: str
    messages: Messages
    packet: int

    def inject(self, site: Site) -> AbstractContextManager[None]:
        """Healing lets go of what was held, in order."""
        return packets_on(
            site.control,
            self.link,
            self.messages,
            name=self.name,
            stream=_STREAM,
            do="hold",
            packet=self.packet,
        )

    def evidence(self, seen: Seen) -> Evidence:
        """How many answers were held, for how long, and whom that left waiting."""
        of_link = seen.over(self.link)
        held = seen.did("held", stream=_STREAM)
        waiting = len(of_link.waiting())
        timed_out = sum(1 for call in of_link.during() if call.ending == "timeout")
        lost = len(of_link.losses_during())
        if not held or not (waiting or timed_out or lost):
            return {}
        longest_ms = max((deed.ms for deed in seen.did("delayed", stream=_STREAM)), default=0)
        return {
            "answers_held": len(held),
            "longest_held_ms": longest_ms,
            "waiting_at_its_end": waiting,
            "timed_out": timed_out,
            "connections_lost": lost,
        }


def _made(fault: Fault, _seed: int) -> HoldReply:
    return HoldReply(
        name=fault.id,
        link=link_of(fault),
        messages=messages_of(fault, command="query"),
        packet=fault.packet or 0,
    )


KIND = FaultKind(
    name="hold_reply",
    about="The answer to one message is held, whole or from a packet on; other connections are served.",
    evidence="The proxy held answers; calls were waiting when it healed, timed out, or lost their connection.",
    outside=_made,
)
