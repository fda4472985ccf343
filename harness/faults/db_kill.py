"""`db_kill`, `db_restart`: end the database server, by SIGKILL or cleanly, and start it again when the fault heals.

Answers to Jepsen's `db/kill!` and `db/start!`. Evidence: a direct connection (not through the proxy) sees another
server process, and clients lost their connections to the old one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Final, Literal

from harness.database.simulated.replies import LOST_CONNECTION, REFUSED
from harness.faults.model.fault import ServerFault
from harness.faults.model.fields import UntilEffective
from harness.faults.real.evidence import GONE, Evidence, Seen
from harness.faults.real.fault_site import Site
from harness.faults.simulated.acts import Act, OnServer, SimulatedRun
from harness.system.clock import monotonic_us

if TYPE_CHECKING:
    from harness.database.simulated.link import Flight, SimulatedLink
    from harness.database.simulated.server import SimulatedServer

_GRACE_US = 5_000_000
"""A client that was idle while the server was down notices its dead connection only afterwards."""
_BACK_AFTER_MS: Final = 400
"""Simulated time from the server's end to its first answer, if the scenario gives no duration."""


class _Ended(ServerFault):
    """Common part: the server is down for a while."""

    must_show = (
        "A direct connection saw another server process, and clients lost their connections to the old one."
    )
    abilities = ("server-process",)

    lasts: UntilEffective = None

    @property
    def simulated_lasts_ms(self) -> int:
        return self.lasts_ms or _BACK_AFTER_MS

    def evidence(self, seen: Seen) -> Evidence:
        start, next_start = seen.last_fact("start"), seen.last_fact("next_start")
        lost = seen.client_errors(*GONE, grace_us=_GRACE_US)
        if not seen.last_fact("gone") or start is None or start == next_start or not lost:
            return {}
        times = {"end_ms": seen.last_fact("end_ms"), "start_ms": seen.last_fact("start_ms")}
        return {"start": start, "next_start": next_start, "codes": lost, **times}


@contextmanager
def _ended_then_started(site: Site, end: Callable[[], None]) -> Iterator[None]:
    """Calls `end`, and starts the server again when the block is over."""
    server, before = site.server, site.server.state()
    began_us = monotonic_us()
    try:
        end()
        site.note_fact(
            began_us=began_us,
            start=before.start,
            uptime_s=before.uptime_s,
            gone=server.state().start is None,
            end_ms=(monotonic_us() - began_us) // 1000,
        )
        yield
    finally:
        back_us = monotonic_us()
        server.start()
        after = server.state()
        site.note_fact(
            next_start=after.start,
            next_uptime_s=after.uptime_s,
            start_ms=(monotonic_us() - back_us) // 1000,
        )


class DatabaseKill(_Ended):
    """Kills the server process; committed data must survive."""

    about = (
        "The database server is killed (SIGKILL) and started again on the same port and data when the fault "
        "heals."
    )
    can = ("failed", "res")

    do: Literal["db_kill"]

    def inject(self, site: Site) -> AbstractContextManager[None]:
        return _ended_then_started(site, site.server.kill)

    def simulated(self, run: SimulatedRun) -> Act:
        return _Gone(run, in_order=False)


class DatabaseRestart(_Ended):
    """Shuts the server down cleanly."""

    about = (
        "The database server is shut down cleanly and started again on the same port and data when the "
        "fault heals."
    )
    can = ("failed", "res")

    do: Literal["db_restart"]

    def inject(self, site: Site) -> AbstractContextManager[None]:
        return _ended_then_started(site, site.server.shut_down)

    def simulated(self, run: SimulatedRun) -> Act:
        return _Gone(run, in_order=True)


class _Gone(OnServer):
    """Ends every session and refuses new ones on every link until it heals. Mutable: see `OnServer`."""

    def __init__(self, run: SimulatedRun, *, in_order: bool) -> None:
        super().__init__(run, codes=GONE, sets=self._end, puts_back=self._start, settles_ms=_GRACE_US // 1000)
        self._in_order = in_order
        self._links = (*run.links.values(), run.direct)

    def _end(self, server: SimulatedServer) -> None:
        if not self._in_order:  # the clients get no error from the server
            for link in self._links:
                link.lose_all()
        server.restart()
        for link in self._links:
            link.faults.append(self)

    def on_message(self, link: SimulatedLink, flight: Flight) -> None:
        """A proxy accepts the connection and then closes it; a direct connection is refused."""
        if flight.is_handshake:
            link.never_arrives(flight)
            link.doom_at(flight, link.hub.now_ms + 1, REFUSED if link.is_direct else LOST_CONNECTION)

    def _start(self, server: SimulatedServer) -> None:
        del server
        for link in self._links:
            link.faults.remove(self)

    def evidence(self) -> Evidence:
        met = self.met()
        return {"in_order": self._in_order, "codes": met} if met else {}
