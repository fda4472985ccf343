"""`limit`: each connection of a link ends once `bytes` more have crossed it in one direction.

Evidence: connections that were lost while it lasted, with their error codes; and in a proxy's log that it closed some
after exactly that many bytes.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

from harness.faults.fault import Site
from harness.faults.kind import FaultKind
from harness.faults.network.toxics import link_of, stream_of, toxics_on
from harness.faults.seen import Evidence, Seen, loss_evidence
from harness.scenario import Fault

__all__ = ["KIND", "Limit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """Closes a connection after `count` bytes."""

    name: str
    link: str
    stream: str
    count: int

    def inject(self, site: Site) -> AbstractContextManager[None]:
        """Counts from now on, on live connections too."""
        attributes = {"bytes": self.count}
        return toxics_on(
            site.control,
            self.link,
            name=self.name,
            type="limit_data",
            streams=(self.stream,),
            attributes=attributes,
        )

    def evidence(self, seen: Seen) -> Evidence:
        """How many connections were lost, by error code, and how many the proxy closed at the limit."""
        lost = loss_evidence(seen.over(self.link))
        if not lost or seen.deeds is None:
            return lost
        closed = [deed for deed in seen.did("limited", stream=self.stream) if deed.bytes == self.count]
        return {**lost, "closed_at_the_limit": len(closed), "bytes": self.count} if closed else {}


def _made(fault: Fault, _seed: int) -> Limit:
    return Limit(name=fault.id, link=link_of(fault), stream=stream_of(fault), count=fault.bytes or 0)


KIND = FaultKind(
    name="limit",
    about="Each connection of the link ends after `bytes` more in one direction.",
    evidence="Connections were lost while it lasted, with their error codes; the proxy closed some at the limit.",
    outside=_made,
)
