"""`refuse_connects`: refuse new connections to a link; live ones go on.

Evidence: connects refused during the fault (2003). A pool whose connections are all alive opens none and shows nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal

from harness.database.simulated.replies import REFUSED
from harness.faults.model.fault import LinkFault
from harness.faults.model.fields import Lasts
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import Toxic
from harness.faults.simulated.acts import losses
from harness.faults.simulated.link_acts import OnReplies
from harness.system.json_types import Json

if TYPE_CHECKING:
    from harness.database.simulated.link import Flight, LinkAct, SimulatedLink


class RefuseConnects(LinkFault):
    """Closes the listening port of `link`."""

    about = "New connections to the link are refused; live ones go on."
    must_show = "Connects were refused during the fault (2003)."
    abilities = ("packets",)
    not_in_jobs = "leaves no trace outside the job's own clients; write `do: down` or `do: stalled_handshake`"
    can = ("res",)

    do: Literal["refuse_connects"]
    lasts: Lasts

    def toxic(self) -> Toxic:
        """Healing listens again on the same port."""
        return Toxic("refuse", ("upstream",), {})

    def evidence(self, seen: Seen) -> Evidence:
        refused = [code for code in seen.over(self.link).losses_during() if code == REFUSED]
        return {"connects_refused": len(refused)} if refused else {}

    def on_links(self) -> LinkAct:
        return SimulatedRefusal()


class SimulatedRefusal(OnReplies):
    """Refuses connects on a simulated link. Mutable: counts."""

    def __init__(self) -> None:
        self._codes: Counter[str] = Counter()

    def begins(self, link: SimulatedLink) -> None:
        """Live connections are not affected."""

    def on_message(self, link: SimulatedLink, flight: Flight) -> None:
        if flight.connection.fresh and flight.doom is None:
            self._codes[str(REFUSED)] += 1
            link.doom_at(flight, link.hub.now_ms + 1, REFUSED)

    def evidence(self) -> Json:
        return losses(self._codes)
