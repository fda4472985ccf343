"""`stalled_handshake`: accept new connections and hold the server's greeting; live connections go on.

Evidence: the proxy held greetings, and clients gave up, were still waiting, or got the greeting when it healed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from harness.faults.model.fault import LinkFault
from harness.faults.model.fields import Lasts
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import Messages, Toxic
from harness.faults.simulated.link_acts import OnRequests
from harness.system.json_types import Json

if TYPE_CHECKING:
    from harness.database.simulated.link import Flight, LinkAct, SimulatedLink

_STREAM = "downstream"
_LOGINS = Messages(command="handshake", times=0)


class StalledHandshake(LinkFault):
    """Holds every greeting on `link`."""

    about = "New connections are accepted but get no greeting; live ones go on."
    must_show = "The proxy held greetings; clients gave up or waited until the fault healed."
    abilities = ("packets",)
    can = ("res",)

    do: Literal["stalled_handshake"]
    lasts: Lasts

    def toxic(self) -> Toxic:
        """Healing releases the held greetings."""
        return _LOGINS.toxic(_STREAM, "hold")

    def evidence(self, seen: Seen) -> Evidence:
        of_link = seen.over(self.link)
        held = [event for event in seen.did("held", stream=_STREAM) if event.command == _LOGINS.command]
        longest_ms = max((event.ms for event in seen.did("delayed", stream=_STREAM)), default=0)
        lost = of_link.losses_during()
        waiting = len(of_link.waiting())
        if not held or not (lost or longest_ms or waiting):
            return {}
        return {
            "logins_held": len(held),
            "connections_lost": len(lost),
            "longest_held_ms": longest_ms,
            "waiting_at_its_end": waiting,
        }

    def on_links(self) -> LinkAct:
        return SimulatedStalledHandshake()


class SimulatedStalledHandshake(OnRequests):
    """Holds the greeting of new simulated connections until it heals. Mutable: counts."""

    def __init__(self) -> None:
        self._waiting: dict[Flight, tuple[int, int]] = {}
        """The stalled logins, with the remaining ms until each would have arrived and been answered."""
        self._greeted_late = 0
        self._greeted = 0
        """Those that were greeted before it healed, so that nothing stalled them."""

    def on_message(self, link: SimulatedLink, flight: Flight) -> None:
        """Holds the login of a new connection."""
        left_ms = link.holds(flight) if flight.connection.fresh else None
        if left_ms is not None:
            self._waiting[flight] = left_ms

    def ends(self, link: SimulatedLink) -> None:
        """Lets the held logins go on."""
        for flight, left_ms in self._waiting.items():
            self._greeted_late += not flight.over
            self._greeted += flight.answered
            link.goes_on(flight, left_ms)

    def evidence(self) -> Json:
        stalled = len(self._waiting) - self._greeted
        return {"handshakes_stalled": stalled, "greeted_late": self._greeted_late} if stalled else {}
