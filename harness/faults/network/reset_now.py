"""`reset_now`: every live connection of a link is reset (RST) at once, once, while the link goes on listening.

Evidence: the connections that the proxy reset, and connections that clients lost since, with their error codes.
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

__all__ = ["KIND", "ResetNow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetNow:
    """Resets what lives on `link`."""

    name: str
    link: str

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """There is nothing to heal: new connections are served as ever."""
        site.found(connections=list(site.control.cut(self.link, "rst")))
        yield

    def evidence(self, seen: Seen) -> Evidence:
        """How many were reset, and how many clients noticed, by error code."""
        lost = loss_evidence(seen.over(self.link))
        reset = sum(len(facts["connections"]) for facts in seen.found)
        return {**lost, "connections_reset": reset} if lost and reset else {}


def _made(fault: Fault, _seed: int) -> ResetNow:
    return ResetNow(name=fault.id, link=link_of(fault))


KIND = FaultKind(
    name="reset_now",
    about="Every live connection of the link is reset at once; new ones are served.",
    evidence="The proxy reset live connections; clients lost some from then on, with their error codes.",
    outside=_made,
)
