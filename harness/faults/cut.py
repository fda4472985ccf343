"""`cut`, `reset_now`: end every live connection of a link once, by FIN or RST, while the link goes on listening.

Evidence: connections lost since then, with their error codes. A client notices the loss of an idle connection only at
its next use, so the fault counts as active until its evidence is found.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, Literal

from harness.faults.model.fault import LinkFault
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import Site
from harness.faults.simulated.acts import cut_losses
from harness.faults.simulated.link_acts import OnReplies
from harness.system.clock import Deadline, wait_until
from harness.system.json_types import Json

if TYPE_CHECKING:
    from harness.database.simulated.link import Flight, LinkAct, SimulatedLink

_NONE_S = 10.0
"""How long it waits for a connection."""
_AGAIN_S = 0.02


class _CutFault(LinkFault):
    """Common part: ends live connections once."""

    way: ClassVar[str]
    """`fin` or `rst`."""

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """There is nothing to heal: new connections are served as ever."""
        site.note_fact(connections=_ended(site, self.link, self.way))
        yield

    def on_links(self) -> LinkAct:
        return SimulatedCut()


class Cut(_CutFault):
    """Ends every live connection of `link` by FIN."""

    about = "Every live connection of the link is closed (FIN), once; new ones are served."
    must_show = "Connections were lost from then on, with their error codes; the proxy closed some."
    way = "fin"
    can = ("res",)

    do: Literal["cut"]

    def evidence(self, seen: Seen) -> Evidence:
        """How many connections were lost since, by error code; empty if a proxy with a log closed none."""
        lost = seen.over(self.link).loss_evidence()
        cut = sum(len(facts["connections"]) for facts in seen.facts)
        if not lost or seen.log is None:
            return lost
        return {**lost, "connections_cut": cut} if cut else {}


class ResetNow(_CutFault):
    """Ends every live connection of `link` by RST."""

    about = "Every live connection of the link is reset (RST), once; new ones are served."
    must_show = "The proxy reset live connections; clients lost some from then on, with their error codes."
    abilities = ("packets",)
    way = "rst"
    can = ("res",)

    do: Literal["reset_now"]

    def evidence(self, seen: Seen) -> Evidence:
        lost = seen.over(self.link).loss_evidence()
        reset = sum(len(facts["connections"]) for facts in seen.facts)
        return {**lost, "connections_reset": reset} if lost and reset else {}


def _ended(site: Site, link: str, how: str) -> list[int]:
    """Ends the live connections and returns their numbers; if a proxy that knows them has none, waits for some.

    Between two attempts, or two batches, a link has no connection.
    """
    ended: list[int] = []

    def found() -> bool:
        ended.extend(site.control.cut(link, how))
        return bool(ended) or site.over.is_set() or site.control.link_log(link) is None

    wait_until(found, deadline=Deadline(_NONE_S), every_s=_AGAIN_S)
    return ended


class SimulatedCut(OnReplies):
    """Ends all connections that are open at one instant; new ones are served. Mutable: counts."""

    def __init__(self) -> None:
        self._cut = 0

    def begins(self, link: SimulatedLink) -> None:
        self._cut += link.cut()

    def on_message(self, link: SimulatedLink, flight: Flight) -> None:
        """Messages sent later are not affected."""

    def evidence(self) -> Json:
        return cut_losses(self._cut)
