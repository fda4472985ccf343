"""`down`: close a link's live connections and refuse new ones until it heals (Toxiproxy's disabled proxy).

Evidence: connections lost at its beginning or refused during it, with their error codes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from harness.faults.model.fault import LinkFault
from harness.faults.model.fields import Lasts
from harness.faults.real.evidence import Evidence, Seen, loss_evidence
from harness.faults.real.fault_site import Site
from harness.faults.simulated.link_acts import ShutPort

if TYPE_CHECKING:
    from harness.database.simulated.link import LinkAct


class Down(LinkFault):
    """Closes `link` for a while."""

    about = "The link is down: live connections are closed, new ones refused."
    must_show = "Connections were lost at its beginning or refused during it, with their error codes."
    can = ("res",)

    do: Literal["down"]
    lasts: Lasts

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """Healing listens again on the same port."""
        try:
            site.control.disable(self.link)
            yield
        finally:
            site.control.enable(self.link)

    def evidence(self, seen: Seen) -> Evidence:
        return loss_evidence(seen.over(self.link))

    def on_links(self) -> LinkAct:
        return ShutPort()
