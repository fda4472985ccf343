"""`reset`: each connection is reset at the next bytes of an answer, while the link goes on listening.

Toxiproxy ends connections opened during the fault by RST, those already open by FIN (`docs/reference/references.md`,
Measured); our own proxy resets both. Evidence: connections lost during the fault, with their error codes; if the proxy
keeps a log, it ended some.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from harness.database.simulated.replies import LOST_CONNECTION
from harness.faults.model.fault import LinkFault
from harness.faults.model.fields import Lasts
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import Toxic
from harness.faults.simulated.acts import cut_losses
from harness.faults.simulated.link_acts import OnReplies
from harness.system.json_types import Json

if TYPE_CHECKING:
    from harness.database.simulated.link import Flight, LinkAct, SimulatedConnection, SimulatedLink


class Reset(LinkFault):
    """Resets each connection of `link` at the next bytes that flow to the client."""

    about = "The link goes on listening, and every connection is reset at its next bytes."
    must_show = "Connections were lost during the fault, with their error codes; the proxy ended them."
    can = ("res",)

    do: Literal["reset"]
    lasts: Lasts

    def toxic(self) -> Toxic:
        """Affects live connections at once; new ones are accepted, then reset."""
        return Toxic("reset_peer", ("downstream",), {"timeout": 0})

    def evidence(self, seen: Seen) -> Evidence:
        """Lost connections, by error code; empty if the proxy's log says that it ended none."""
        lost = seen.over(self.link).loss_evidence()
        if not lost or seen.log is None:
            return lost
        ended = seen.did("reset", "cut")
        return (
            {**lost, "connections_reset": len({event.connection: None for event in ended})} if ended else {}
        )

    def on_links(self) -> LinkAct:
        return SimulatedReset()


class SimulatedReset(OnReplies):
    """Resets a simulated connection at its next bytes, a new one at the server's greeting. Mutable: counts."""

    def __init__(self) -> None:
        self._doomed: dict[SimulatedConnection, None] = {}

    def on_message(self, link: SimulatedLink, flight: Flight) -> None:
        """The connection ends at the first bytes of the answer; a new one before its first request."""
        if not flight.is_sound:
            return
        connection = flight.connection
        if connection.fresh:
            link.never_arrives(flight)
            flight.due_ms = link.hub.now_ms + 1
        flight.doom = LOST_CONNECTION
        self._doomed[connection] = None

    def evidence(self) -> Json:
        return cut_losses(len(self._doomed))
