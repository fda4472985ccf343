"""`cut`: every live connection of a link ends now, once, while the link goes on listening.

Evidence: connections that were lost since, with their error codes. One that is idle is missed only at its next use,
so the fault counts as on until it is seen to have bitten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from harness.faults.model.fault import LinkFault
from harness.faults.real.evidence import Evidence, Seen, loss_evidence
from harness.faults.real.fault_site import Site
from harness.faults.simulated.act import LOST_CONNECTION, LinkAct, losses

if TYPE_CHECKING:
    from harness.levels.sim.link import Flight, Link

__all__ = ["Cut", "ResetNow", "SimulatedCut"]


class Cut(LinkFault):
    """Ends every live connection of `link` in order (FIN)."""

    about = "Every live connection of the link ends, once; new ones are served."
    must_show = "Connections were lost from then on, with their error codes; the proxy had some to cut."

    do: Literal["cut"]

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

    def on_links(self) -> LinkAct:
        return SimulatedCut()


class ResetNow(LinkFault):
    """Resets what lives on `link`."""

    about = "Every live connection of the link is reset at once; new ones are served."
    must_show = "The proxy reset live connections; clients lost some from then on, with their error codes."
    abilities = ("packets",)

    do: Literal["reset_now"]

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

    def on_links(self) -> LinkAct:
        return SimulatedCut()


class SimulatedCut:
    """Ends what is connected at one instant, once; new connections are welcome. Mutable: counts."""

    def __init__(self) -> None:
        self._cut = 0

    def begins(self, link: Link) -> None:
        """All of it."""
        self._cut += link.cut()

    def meets(self, link: Link, flight: Flight) -> None:
        """It is over."""

    def ends(self, link: Link) -> None:
        """It was over at once."""

    def evidence(self) -> dict[str, Any]:
        """How many connections were cut."""
        return losses(Counter({str(LOST_CONNECTION): self._cut}))
