"""`wait_timeout`: the server hangs up on clients that have been silent for longer than `delay`.

It holds for sessions that begin under it, so the run's sessions are ended first, and again when it heals. Evidence:
the server counted clients that it had hung up on, beyond those that the fault ended itself, and clients lost
connections later than `delay` after that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from harness.clock import monotonic_us
from harness.faults.model.fault import ServerFault
from harness.faults.model.fields import Delay, Lasts
from harness.faults.real.client_errors import GONE, client_errors, fact
from harness.faults.real.fault_site import Site
from harness.faults.real.repeating import repeating
from harness.faults.real.seen import Evidence, Seen
from harness.faults.real.server_variables import variables_of_new_sessions
from harness.faults.simulated.act import LinkAct
from harness.faults.simulated.losses import LOST_CONNECTION, losses

if TYPE_CHECKING:
    from harness.sim.link import Flight, Link

__all__ = ["SimulatedReaping", "WaitTimeout"]

_LOOK_S = 0.1
_SETTLED_US = 300_000
"""The sessions that the fault ended are gone by then, and counted."""
_COUNTER = "Aborted_clients"
_NOTICES_US = 5_000_000


class WaitTimeout(ServerFault):
    """Lets clients be silent for `delay`, rounded up to whole seconds."""

    about = "The database server hangs up on clients that are silent for longer than `delay` (a second)."
    must_show = (
        "The server counted clients that it hung up on, beyond those that the fault ended, and "
        "clients noticed."
    )

    do: Literal["wait_timeout"]
    lasts: Lasts
    delay: Delay = 1_000

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """Busy clients notice nothing; idle ones lose their connection and notice at the next use."""
        seconds = max(1, -(-self.delay // 1000))
        with variables_of_new_sessions(site, {"wait_timeout": seconds}):
            count = _HungUp(site=site, settled_us=monotonic_us() + _SETTLED_US)
            with repeating(count.look, _LOOK_S):
                yield

    def evidence(self, seen: Seen) -> Evidence:
        """Whom the server hung up on by its own count, and who noticed, later than `delay` after the beginning."""
        hung_up, ended_us = fact(seen, "hung_up"), fact(seen, "ended_us")
        if not hung_up or ended_us is None:
            return {}
        later = replace(seen, armed_us=ended_us + self.delay * 1000, found=())
        lost = client_errors(later, GONE, grace_us=_NOTICES_US)
        return {"hung_up": hung_up, "codes": lost} if lost else {}

    def on_links(self) -> LinkAct:
        """See `ServerFault`."""
        return SimulatedReaping(self.delay)


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


class SimulatedReaping:
    """Sessions that were idle for longer than a limit are ended; their clients notice later. Mutable: counts."""

    def __init__(self, idle_ms_max: int) -> None:
        self._idle_ms_max = idle_ms_max
        self._reaped = 0

    def begins(self, link: Link) -> None:
        """It holds for sessions that begin now: the others are ended first."""
        link.cut()

    def meets(self, link: Link, flight: Flight) -> None:
        """On a session that is there no more."""
        since_ms = flight.connection.idle_since_ms
        if since_ms is not None and link.hub.now_ms - since_ms > self._idle_ms_max and flight.doom is None:
            self._reaped += 1
            link.breaks(flight, worked=False)

    def ends(self, link: Link) -> None:
        """The limit is as it was, for sessions that begin now."""
        link.cut()

    def evidence(self) -> dict[str, Any]:
        """How many found their session gone."""
        found = losses(Counter({str(LOST_CONNECTION): self._reaped}))
        return {"reaped": self._reaped, **found} if found else {}
