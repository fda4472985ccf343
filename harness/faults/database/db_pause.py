"""`db_pause`: every thread of the server stops, while the kernel goes on accepting connections for it.

Answers to Jepsen's `db/Pause`. Evidence: past the proxy the process is seen stopped, no call was answered
before it went on, and some waited so long or were given up.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from harness.clock import monotonic_us
from harness.faults.database.client_errors import client_errors, fact
from harness.faults.fault import Evidence, Site
from harness.faults.kind import FaultKind
from harness.faults.seen import Seen
from harness.history.timed_call import TimedCall

__all__ = ["KIND", "DatabasePause"]

_GIVEN_UP: tuple[int | str, ...] = (2003, 2006, 2013, "TimeoutError")
_ANSWERED = "ok"
_LATE_US = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabasePause:
    """Stops the server for a while."""

    name: str

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


def _is_answered(call: TimedCall, paused_us: int, end_us: int) -> bool:
    """Whether it was answered while the server stood still; who had asked before may have been late to note it."""
    if call.ending != _ANSWERED or call.ended_us is None or call.ended_us >= end_us:
        return False
    return call.began_us >= paused_us or call.ended_us > paused_us + _LATE_US


KIND = FaultKind(
    name="db_pause",
    about="Every thread of the database server is stopped; its connections stay open, new ones are accepted.",
    evidence="The process is seen stopped, calls that began under it waited or were given up, and none was answered.",
    outside=lambda fault, _seed: DatabasePause(name=fault.id),
)
