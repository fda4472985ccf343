"""`wait_timeout`: the server hangs up on clients that have been silent for longer than `delay`.

It holds for sessions that begin under it, so the run's sessions are ended first, and again when it heals. Evidence:
the server counted clients that it had hung up on, beyond those that the fault ended itself, and clients lost
connections later than `delay` after that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from harness.clock import monotonic_us
from harness.faults.model.fault import ServerFault
from harness.faults.model.fields import Delay, Lasts
from harness.faults.real.evidence import GONE, Evidence, Seen, client_errors, fact
from harness.faults.real.fault_site import Site
from harness.faults.real.server_control import repeating
from harness.faults.real.server_variables import variables_of_new_sessions
from harness.faults.simulated.act import Act
from harness.faults.simulated.on_server import OnServer

if TYPE_CHECKING:
    from harness.levels.sim.server import SimulatedServer
    from harness.levels.sim.simulation import Simulation

__all__ = ["WaitTimeout"]

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

    def simulated(self, run: Simulation) -> Act:
        return _SimulatedSilence(run, silence_ms=1000 * max(1, -(-self.delay // 1000)))


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


class _SimulatedSilence(OnServer):
    """Mutable: see `OnServer`; whom it ended itself does not count, but who was silent for too long."""

    def __init__(self, run: Simulation, *, silence_ms: int) -> None:
        super().__init__(
            run, codes=GONE, sets=self._bound, puts_back=self._unbound, settles_ms=_NOTICES_US // 1000
        )
        self._silence_ms = silence_ms
        self._hung_up_before = 0

    def _bound(self, server: SimulatedServer) -> None:
        server.silence_ms = self._silence_ms
        server.end_clients()
        self._hung_up_before = server.hung_up

    def _unbound(self, server: SimulatedServer) -> None:
        server.silence_ms = None
        server.end_clients()

    def evidence(self) -> Evidence:
        """Whom the server hung up on, and who noticed."""
        hung_up, met = self.server.hung_up - self._hung_up_before, self.met()
        return {"hung_up": hung_up, "codes": met} if hung_up and met else {}
