"""`blackhole`: the link swallows everything; connections stay open, connects succeed, nothing answers.

Evidence: calls begun under it timed out or lost their connection, and none got its answer while it lasted; where
the proxy keeps a log, it swallowed bytes. A client that waits without a limit of its own notices when healing cuts
its connection, so losses just after count too, if a call was waiting then.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

from harness.faults.fault import Site
from harness.faults.kind import FaultKind
from harness.faults.network.toxics import link_of, streams_of, toxics_on
from harness.faults.seen import NOTICE_US, Evidence, Seen
from harness.scenario import Fault

__all__ = ["KIND", "Blackhole"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Blackhole:
    """Drops what flows in `streams`."""

    name: str
    link: str
    streams: tuple[str, ...]

    def inject(self, site: Site) -> AbstractContextManager[None]:
        """Healing closes the connections that were swallowed: their streams have holes."""
        return toxics_on(
            site.control,
            self.link,
            name=self.name,
            type="timeout",
            streams=self.streams,
            attributes={"timeout": 0},
        )

    def evidence(self, seen: Seen) -> Evidence:
        """How many calls it swallowed; empty if one of them was answered while it lasted."""
        of_link = seen.over(self.link)
        during = of_link.during()
        answered = [call for call in of_link.inside() if call.ending == "ok"]
        timed_out = sum(1 for call in during if call.ending == "timeout")
        lost = of_link.losses_during(grace_us=NOTICE_US)
        swallowed = _swallowed(seen)
        if answered or swallowed is None or not (timed_out or (lost and of_link.waiting())):
            return {}
        return {
            "calls_during": len(during),
            "timed_out": timed_out,
            "connections_lost": len(lost),
            "waiting_at_its_end": len(of_link.waiting()),
            "answered": 0,
            **swallowed,
        }


def _swallowed(seen: Seen) -> Evidence | None:
    """What the proxy's log says; nothing without one, None if nothing was swallowed."""
    if seen.deeds is None:
        return {}
    swallowed = sum(deed.bytes for deed in seen.did("swallowed"))
    return {"bytes_swallowed": swallowed} if swallowed else None


def _made(fault: Fault, _seed: int) -> Blackhole:
    return Blackhole(name=fault.id, link=link_of(fault), streams=streams_of(fault))


KIND = FaultKind(
    name="blackhole",
    about="The link swallows what crosses it: connections stay open and nothing answers.",
    evidence="Calls that began under it timed out or lost their connection, and none was answered; the proxy "
    "swallowed bytes.",
    outside=_made,
)
