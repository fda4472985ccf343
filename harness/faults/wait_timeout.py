"""`wait_timeout`: lower the server's `wait_timeout`, so that it closes sessions idle for longer than `delay`.

The limit applies to new sessions, so the run's sessions are ended at the beginning, and again when the fault heals.
Evidence: the server counted aborted clients beyond those that the fault ended itself, and clients lost connections more
than `delay` after the beginning.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from harness.faults.model.fault import ServerFault
from harness.faults.model.fields import Delay, Lasts
from harness.faults.real.evidence import GONE, Evidence, Seen
from harness.faults.real.fault_site import Site, note_rises, variables_of_new_sessions
from harness.faults.real.server_control import repeating
from harness.faults.simulated.acts import Act, OnServer, SimulatedRun
from harness.system.clock import monotonic_us

if TYPE_CHECKING:
    from harness.database.simulated.server import SimulatedServer

_LOOK_S = 0.1
_SETTLED_US = 300_000
"""After this time the sessions that the fault ended are gone and counted."""
_COUNTER = "Aborted_clients"
_NOTICES_US = 5_000_000


class WaitTimeout(ServerFault):
    """Sets `wait_timeout` to `delay`, rounded up to whole seconds."""

    about = "The database server closes sessions that are idle for longer than `delay` (default 1s)."
    must_show = (
        "The server counted sessions that it closed, beyond those that the fault ended, and clients noticed."
    )
    can = ("res",)

    do: Literal["wait_timeout"]
    lasts: Lasts
    delay: Delay = 1_000

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """Idle clients lose their connection and notice at the next use; busy clients are not affected."""
        seconds = max(1, -(-self.delay // 1000))
        with variables_of_new_sessions(site, {"wait_timeout": seconds}):
            settled_us, note = monotonic_us() + _SETTLED_US, note_rises(site, "hung_up")
            before: int | None = None

            def look() -> None:
                nonlocal before
                counted = site.server.counters().get(_COUNTER)
                if counted is not None and monotonic_us() >= settled_us:
                    before = counted if before is None else before
                    note(counted - before)

            with repeating(look, _LOOK_S):
                yield

    def evidence(self, seen: Seen) -> Evidence:
        """The server's own count, and the clients' losses more than `delay` after the beginning."""
        hung_up, ended_us = seen.last_fact("hung_up"), seen.last_fact("ended_us")
        if not hung_up or ended_us is None:
            return {}
        later = replace(seen, armed_us=ended_us + self.delay * 1000, facts=())
        lost = later.client_errors(*GONE, grace_us=_NOTICES_US)
        return {"hung_up": hung_up, "codes": lost} if lost else {}

    def simulated(self, run: SimulatedRun) -> Act:
        return _SimulatedSilence(run, silence_ms=1000 * max(1, -(-self.delay // 1000)))


class _SimulatedSilence(OnServer):
    """Closes idle simulated sessions; those that the fault ended do not count. Mutable: see `OnServer`."""

    def __init__(self, run: SimulatedRun, *, silence_ms: int) -> None:
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
        hung_up, met = self.server.hung_up - self._hung_up_before, self.met()
        return {"hung_up": hung_up, "codes": met} if hung_up and met else {}
