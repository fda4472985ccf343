"""`down`: close a link's live connections and refuse new ones until it heals (Toxiproxy's disabled proxy).

Evidence: connections lost at its beginning or refused during it, with their error codes. The kernel refuses a job's
connections without a trace, so of a job a start that ends with an error during the fault is evidence too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from harness.faults.model.fault import LinkFault
from harness.faults.model.fields import Lasts
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import Site
from harness.faults.simulated.link_acts import ShutPort

if TYPE_CHECKING:
    from harness.database.simulated.link import LinkAct


class Down(LinkFault):
    """Closes `link` for a while."""

    about = "The link is down: live connections are closed, new ones refused."
    must_show = (
        "Connections were lost at its beginning or refused during it, with their error codes; "
        "or a start of a job ended with an error during it."
    )
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
        failed = seen.starts_failed()
        return seen.over(self.link).loss_evidence() or ({"starts_failed": failed} if failed else {})

    def on_links(self) -> LinkAct:
        return ShutPort()
