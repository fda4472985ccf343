"""`db_pause`: every thread of the server stops, while the kernel goes on accepting connections for it.

Answers to Jepsen's `db/Pause`. Evidence: past the proxy the process is seen stopped, no call was answered
before it went on, and some waited so long or were given up.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from harness.clock import monotonic_us
from harness.faults.model.fault import ServerFault
from harness.faults.model.fields import Lasts
from harness.faults.real.evidence import Evidence, Seen, client_errors, fact
from harness.faults.real.fault_site import Site
from harness.faults.simulated.act import Act, OnLinks
from harness.history.follower import TimedCall

if TYPE_CHECKING:
    from harness.levels.sim.link import Flight, Link
    from harness.levels.sim.simulation import Simulation

__all__ = ["DatabasePause"]

_GIVEN_UP: tuple[int | str, ...] = (2003, 2006, 2013, "TimeoutError")
_ANSWERED = "ok"
_LATE_US = 100_000


class DatabasePause(ServerFault):
    """Stops the server for a while."""

    about = (
        "Every thread of the database server is stopped; its connections stay open, new ones are accepted."
    )
    must_show = (
        "The process is seen stopped, calls that began under it waited or were given up, and none was "
        "answered."
    )
    abilities = ("server-process",)

    do: Literal["db_pause"]
    lasts: Lasts

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """Nothing is lost: it goes on where it stood."""
        try:
            site.server.pause()
            state = site.server.state()
            site.found(paused=state.paused, pid=state.pid, paused_us=monotonic_us())
            yield
        finally:
            site.found(still_paused=site.server.state().paused, until_us=monotonic_us())
            site.server.resume()

    def evidence(self, seen: Seen) -> Evidence:
        """It was stopped, and nobody was answered meanwhile."""
        paused_us, until_us = fact(seen, "paused_us"), fact(seen, "until_us")
        if not fact(seen, "paused") or fact(seen, "still_paused") is False or paused_us is None:
            return {}
        end_us = seen.healed_us if until_us is None else until_us
        answered = [call for call in seen.calls if _is_answered(call, paused_us, end_us)]
        waiting = [call for call in seen.calls if call.began_us < end_us <= (call.ended_us or end_us)]
        given_up = client_errors(seen, _GIVEN_UP)
        if answered or not (waiting or given_up):
            return {}
        return {"pid": fact(seen, "pid"), "calls_waiting": len(waiting), "answered": 0, "codes": given_up}

    def simulated(self, run: Simulation) -> Act:
        return OnLinks(_Paused(), [*run.links.values(), run.direct])


def _is_answered(call: TimedCall, paused_us: int, end_us: int) -> bool:
    """Whether it was answered while the server stood still; who had asked before may have been late to note it."""
    if call.ending != _ANSWERED or call.ended_us is None or call.ended_us >= end_us:
        return False
    return call.began_us >= paused_us or call.ended_us > paused_us + _LATE_US


class _Paused:
    """SIGSTOP: the kernel accepts for it, nobody answers. Mutable: counts."""

    swallows_requests = True
    """The server does not hear that a client has hung up."""

    def __init__(self) -> None:
        self._held: dict[Flight, tuple[int, int]] = {}
        self._lost_patience = 0

    def begins(self, link: Link) -> None:
        """What it is doing stands still."""
        for flight in link.flights:
            self.meets(link, flight)
            link.aim(flight)

    def meets(self, link: Link, flight: Flight) -> None:
        """It waits, with what is left to do."""
        left_ms = link.holds(flight)
        if left_ms is not None:
            self._held[flight] = left_ms

    def ends(self, link: Link) -> None:
        """It goes on; of a request that nobody waits for any more it may still do the work."""
        for flight, left_ms in self._held.items():
            if flight.connection.link is not link:
                continue
            if not flight.over:
                link.goes_on(flight, left_ms)
                continue
            self._lost_patience += 1
            if flight.held and flight.works and link.draw.bits(1):
                link.serve_late(flight)

    def evidence(self) -> dict[str, Any]:
        """How many requests it kept waiting, and how many clients lost patience."""
        held = len(self._held)
        return {"requests_held": held, "lost_patience": self._lost_patience} if held else {}
