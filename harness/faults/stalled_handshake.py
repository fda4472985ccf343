"""`stalled_handshake`: a new connection is accepted, and the server's greeting does not come; live connections go on.

Evidence: the proxy held greetings, and their clients gave up, or were still waiting, or got theirs only at the end.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal

from harness.faults.model.fault import LinkFault
from harness.faults.model.fields import Lasts
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import Messages, Site, packets_on
from harness.faults.simulated.act import LinkAct, meet_requests

if TYPE_CHECKING:
    from harness.levels.sim.link import Flight, Link

__all__ = ["SimulatedStall", "StalledHandshake"]

_STREAM = "downstream"
_LOGINS = Messages(command="handshake", times=0)


class StalledHandshake(LinkFault):
    """Holds every greeting on `link`."""

    about = "New connections are accepted and never greeted; live ones go on."
    must_show = "The proxy held greetings; clients gave up, or had to wait until the end."
    abilities = ("packets",)

    do: Literal["stalled_handshake"]
    lasts: Lasts

    def inject(self, site: Site) -> AbstractContextManager[None]:
        """Healing lets the greetings go on."""
        return packets_on(site.control, self.link, _LOGINS, name=self.id, stream=_STREAM, do="hold")

    def evidence(self, seen: Seen) -> Evidence:
        """How many logins were held, for how long, and how many clients gave up meanwhile."""
        of_link = seen.over(self.link)
        held = [deed for deed in seen.did("held", stream=_STREAM) if deed.command == _LOGINS.command]
        longest_ms = max((deed.ms for deed in seen.did("delayed", stream=_STREAM)), default=0)
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
        return SimulatedStall()


class SimulatedStall:
    """New connections are accepted and not greeted, until it heals; live ones go on. Mutable: counts."""

    def __init__(self) -> None:
        self._waiting: dict[Flight, tuple[int, int]] = {}
        """And in how many ms each would have arrived, and been answered."""
        self._greeted_late = 0

    def begins(self, link: Link) -> None:
        """What is being greeted stalls too."""
        meet_requests(self, link)

    def meets(self, link: Link, flight: Flight) -> None:
        """A new connection's first request waits for the greeting."""
        left_ms = link.holds(flight) if flight.connection.fresh else None
        if left_ms is not None:
            self._waiting[flight] = left_ms

    def ends(self, link: Link) -> None:
        """Who still waits is greeted now."""
        for flight, left_ms in self._waiting.items():
            self._greeted_late += not flight.over
            link.goes_on(flight, left_ms)

    def evidence(self) -> dict[str, Any]:
        """How many handshakes stalled, and how many of them were worth waiting for."""
        stalled = len(self._waiting)
        return {"handshakes_stalled": stalled, "greeted_late": self._greeted_late} if stalled else {}
