"""`cut`: every live connection of a link ends now, once, while the link goes on listening.

Evidence: connections that were lost since, with their error codes. One that is idle is missed only at its next use,
so the fault counts as on until it is seen to have bitten.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from harness.faults.fault import Site
from harness.faults.kind import FaultKind
from harness.faults.network.toxics import link_of
from harness.faults.seen import Evidence, Seen, loss_evidence
from harness.scenario import Fault

__all__ = ["KIND", "Cut"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Ends every live connection of `link` in order (FIN)."""

    name: str
    link: str

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """There is nothing to heal: new connections are served as ever."""
        site.found(connections=list(site.control.cut(self.link, "fin")))
        yield

    def evidence(self, seen: Seen) -> Evidence:
        """How many connections were lost since, by error code; empty if a proxy with a log had none to cut."""
        lost = loss_evidence(seen.over(self.link))
        cut = sum(len(facts["connections"]) for facts in seen.found)
        if not lost or seen.deeds is None:
            return lost
        return {**lost, "connections_cut": cut} if cut else {}


def _made(fault: Fault, _seed: int) -> Cut:
    return Cut(name=fault.id, link=link_of(fault))


KIND = FaultKind(
    name="cut",
    about="Every live connection of the link ends, once; new ones are served.",
    evidence="Connections were lost from then on, with their error codes; the proxy had some to cut.",
    outside=_made,
)
