"""`db_pause`: stop every thread of the server (SIGSTOP); the kernel goes on accepting connections for it.

Answers to Jepsen's `db/Pause`. Evidence: the process was stopped when looked at directly, no call was answered
before it went on, and some calls were waiting or were given up.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from harness.faults.model.fault import ServerFault
from harness.faults.model.fields import Lasts
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import Site
from harness.faults.simulated.acts import Act, OnLinks, SimulatedRun
from harness.history.follower import TimedCall
from harness.system.clock import monotonic_us
from harness.system.json_types import Json

if TYPE_CHECKING:
    from harness.database.simulated.link import Flight, SimulatedLink

_GIVEN_UP: tuple[int | str, ...] = (2003, 2006, 2013, "TimeoutError")
_ANSWERED = "ok"
_LATE_US = 100_000


class DatabasePause(ServerFault):
    """Stops the server process for a while."""

    about = (
        "Every thread of the database server is stopped; its connections stay open, new ones are accepted."
    )
    must_show = (
        "The process was stopped, calls that began during the fault waited or were given up, and none was "
        "answered."
    )
    abilities = ("server-process",)
    can = ("res",)

    do: Literal["db_pause"]
    lasts: Lasts

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """Pause the server; it loses nothing, and resumes where it stopped."""
        try:
            site.server.pause()
            state = site.server.state()
            site.note_fact(paused=state.paused, pid=state.pid, paused_us=monotonic_us())
            yield
        finally:
            site.note_fact(still_paused=site.server.state().paused, until_us=monotonic_us())
            site.server.resume()

    def evidence(self, seen: Seen) -> Evidence:
        paused_us, until_us = seen.last_fact("paused_us"), seen.last_fact("until_us")
        if not seen.last_fact("paused") or seen.last_fact("still_paused") is False or paused_us is None:
            return {}
        end_us = seen.healed_us if until_us is None else until_us
        answered = [call for call in seen.calls if _is_answered(call, paused_us, end_us)]
        waiting = [call for call in seen.calls if call.began_us < end_us <= (call.ended_us or end_us)]
        hung_up = [
            call
            for call in seen.calls
            if call.ending == "timeout" and paused_us < (call.ended_us or 0) < end_us
        ]
        given_up = seen.client_errors(*_GIVEN_UP)
        if answered or not (waiting or hung_up or given_up):
            return {}
        return {
            "pid": seen.last_fact("pid"),
            "calls_waiting": len(waiting),
            "calls_given_up": len(hung_up),
            "answered": 0,
            "codes": given_up,
        }

    def simulated(self, run: SimulatedRun) -> Act:
        return OnLinks(_Paused(), [*run.links.values(), run.direct])


def _is_answered(call: TimedCall, paused_us: int, end_us: int) -> bool:
    """Whether it was answered during the pause; a call that began earlier may record its answer slightly late."""
    if call.ending != _ANSWERED or call.ended_us is None or call.ended_us >= end_us:
        return False
    return call.began_us >= paused_us or call.ended_us > paused_us + _LATE_US


class _Paused:
    """A stopped server: connects succeed, no request is answered. Mutable: counts."""

    swallows_requests = True
    """The server does not notice that a client closed its connection."""

    def __init__(self) -> None:
        self._held: dict[Flight, tuple[int, int]] = {}
        self._given_up = 0
        self._answered = 0
        """Those that were answered before it healed, so that nothing stopped the server."""

    def begins(self, link: SimulatedLink) -> None:
        for flight in link.flights:
            self.on_message(link, flight)
            link.aim(flight)

    def on_message(self, link: SimulatedLink, flight: Flight) -> None:
        """The request waits, with its remaining work."""
        left_ms = link.holds(flight)
        if left_ms is not None:
            self._held[flight] = left_ms

    def ends(self, link: SimulatedLink) -> None:
        """Requests go on; the server may still execute a request whose client gave up."""
        for flight, left_ms in self._held.items():
            if flight.connection.link is not link:
                continue
            if not flight.over:
                link.goes_on(flight, left_ms)
                continue
            self._answered += flight.answered
            self._given_up += not flight.answered
            if flight.held and flight.works and link.draw.bits(1):
                link.serve_late(flight)

    def evidence(self) -> Json:
        held = len(self._held) - self._answered
        return {"requests_held": held, "lost_patience": self._given_up} if held else {}
