"""`wait_timeout`: the server hangs up on clients that have been silent for longer than `delay`.

It holds for sessions that begin under it, so the run's sessions are ended first, and again when it heals. Evidence:
the server counted clients that it had hung up on, beyond those that the fault ended itself, and clients lost
connections later than `delay` after that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from harness.clock import monotonic_us
from harness.faults.database.client_errors import GONE, client_errors, fact
from harness.faults.database.server_variables import variables_of_new_sessions
from harness.faults.fault import Evidence, Site
from harness.faults.kind import FaultKind
from harness.faults.repeating import repeating
from harness.faults.seen import Seen

__all__ = ["KIND", "WaitTimeout"]

_LOOK_S = 0.1
_SETTLED_US = 300_000
"""The sessions that the fault ended are gone by then, and counted."""
_COUNTER = "Aborted_clients"
_NOTICES_US = 5_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitTimeout:
    """Lets clients be silent for `delay_ms`, rounded up to whole seconds."""

    name: str
    delay_ms: int = 1000

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """Busy clients notice nothing; idle ones lose their connection and notice at the next use."""
        seconds = max(1, -(-self.delay_ms // 1000))
        with variables_of_new_sessions(site, {"wait_timeout": seconds}):
            count = _HungUp(site=site, settled_us=monotonic_us() + _SETTLED_US)
            with repeating(count.look, _LOOK_S):
                yield

    def evidence(self, seen: Seen) -> Evidence:
        """Whom the server hung up on by its own count, and who noticed, later than `delay` after the beginning."""
        hung_up, ended_us = fact(seen, "hung_up"), fact(seen, "ended_us")
        if not hung_up or ended_us is None:
            return {}
        later = replace(seen, armed_us=ended_us + self.delay_ms * 1000, found=())
        lost = client_errors(later, GONE, grace_us=_NOTICES_US)
        return {"hung_up": hung_up, "codes": lost} if lost else {}


@dataclass(slots=True, kw_only=True)
class _HungUp:
    """Clients that the server hung up on since those that we ended were counted. Mutable: it counts."""

    site: Site
    settled_us: int
    before: int | None = None
    told: int = 0

    def look(self) -> None:
        """Read the server's count."""
        counted = self.site.server.counters().get(_COUNTER)
        if counted is None or monotonic_us() < self.settled_us:
            return
        if self.before is None:
            self.before = counted
        elif counted - self.before > self.told:
            self.told = counted - self.before
            self.site.found(hung_up=self.told)


KIND = FaultKind(
    name="wait_timeout",
    about="The database server hangs up on clients that are silent for longer than `delay` (a second).",
    evidence="The server counted clients that it hung up on, beyond those that the fault ended, and clients noticed.",
    outside=lambda fault, _seed: WaitTimeout(name=fault.id, delay_ms=fault.delay or 1000),
)
