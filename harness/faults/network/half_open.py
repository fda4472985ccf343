"""`half_open`: one direction of a link goes silent, FIN and RST included; the other direction flows on.

Evidence: the proxy swallowed bytes of that direction, and while it lasted no call was answered: some timed out, lost
their connection, or were still waiting. Healing resets the connections that were swallowed, so losses just after count.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

from harness.faults.fault import Site
from harness.faults.kind import FaultKind
from harness.faults.network.toxics import link_of, stream_of, toxics_on
from harness.faults.seen import NOTICE_US, Evidence, Seen
from harness.scenario import Fault

__all__ = ["KIND", "HalfOpen"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfOpen:
    """Swallows everything that flows in `stream`."""

    name: str
    link: str
    stream: str

    def inject(self, site: Site) -> AbstractContextManager[None]:
        """The peer that sends in the silent direction learns nothing."""
        return toxics_on(
            site.control, self.link, name=self.name, type="half_open", streams=(self.stream,), attributes={}
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


def _made(fault: Fault, _seed: int) -> HalfOpen:
    return HalfOpen(name=fault.id, link=link_of(fault), stream=stream_of(fault))


KIND = FaultKind(
    name="half_open",
    about="One direction of the link swallows everything, the ends of connections too; the other one flows.",
    evidence="The proxy swallowed bytes that way; calls timed out, were lost or waited, and none was answered.",
    outside=_made,
)
