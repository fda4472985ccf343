"""`db_kill`, `db_restart`: the database server ends, by SIGKILL or in order, and starts again when the fault heals.

Answers to Jepsen's `db/kill!` and `db/start!`. Evidence: past the proxy another start of the server is seen, and
clients lost their connections to the old one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal

from harness.clock import monotonic_us
from harness.faults.model.fault import ServerFault
from harness.faults.model.fields import UntilEffective
from harness.faults.real.client_errors import GONE, client_errors, fact
from harness.faults.real.fault_site import Site
from harness.faults.real.seen import Evidence, Seen
from harness.faults.simulated.act import LinkAct
from harness.faults.simulated.losses import LOST_CONNECTION, REFUSED, losses

if TYPE_CHECKING:
    from harness.sim.link import Flight, Link

__all__ = ["DatabaseKill", "DatabaseRestart", "Gone"]

_GRACE_US = 5_000_000
"""Who had no need of the server while it was gone notices when it is back, by a connection that is dead."""
_BACK_AFTER_MS: Final = 400
"""From its end to when it answers again, if nobody keeps it down for longer."""
_SHUTS_DOWN: Final = 1053


class _Ended(ServerFault):
    """The server is gone for a while."""

    abilities = ("server-process",)

    lasts: UntilEffective = None

    @property
    def simulated_lasts_ms(self) -> int:
        """Without a duration, as long as a start takes."""
        return self.lasts_ms or _BACK_AFTER_MS

    def evidence(self, seen: Seen) -> Evidence:
        """The two starts, and the clients' losses."""
        start, next_start = fact(seen, "start"), fact(seen, "next_start")
        lost = client_errors(seen, GONE, grace_us=_GRACE_US)
        if not fact(seen, "gone") or start is None or start == next_start or not lost:
            return {}
        times = {"end_ms": fact(seen, "end_ms"), "start_ms": fact(seen, "start_ms")}
        return {"start": start, "next_start": next_start, "codes": lost, **times}


class DatabaseKill(_Ended):
    """Kills the server: it is gone while the block lasts, and what it had acknowledged is there again afterwards."""

    about = (
        "The database server dies by SIGKILL and is started again on the same port and data when the "
        "fault heals."
    )
    must_show = (
        "Past the proxy another start of the server is seen, and clients lost their connections to "
        "the old one."
    )

    do: Literal["db_kill"]

    def inject(self, site: Site) -> AbstractContextManager[None]:
        """See `OutsideFault`."""
        return _ended_then_started(site, site.server.kill)

    def on_links(self) -> LinkAct:
        """See `ServerFault`."""
        return Gone(in_order=False)


class DatabaseRestart(_Ended):
    """Shuts the server down in order: it is gone while the block lasts."""

    about = (
        "The database server shuts down in order and is started again on the same port and data when "
        "it heals."
    )
    must_show = (
        "Past the proxy another start of the server is seen, and clients lost their connections to "
        "the old one."
    )

    do: Literal["db_restart"]

    def inject(self, site: Site) -> AbstractContextManager[None]:
        """See `OutsideFault`."""
        return _ended_then_started(site, site.server.shut_down)

    def on_links(self) -> LinkAct:
        """See `ServerFault`."""
        return Gone(in_order=True)


@contextmanager
def _ended_then_started(site: Site, end: Callable[[], None]) -> Iterator[None]:
    """`end` it, and start it when the block is over."""
    server, before = site.server, site.server.state()
    began_us = monotonic_us()
    try:
        end()
        site.found(
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
        site.found(
            next_start=after.start,
            next_uptime_s=after.uptime_s,
            start_ms=(monotonic_us() - back_us) // 1000,
        )


class Gone:
    """The server is killed, or shut down in order, and started when this heals. Mutable: counts."""

    def __init__(self, *, in_order: bool) -> None:
        self._in_order = in_order
        self._codes: Counter[str] = Counter()

    def begins(self, link: Link) -> None:
        """Every session ends; a statement that comes now is told why, if there is time to."""
        if self._in_order:
            for flight in [one for one in link.flights if one.is_asking(link.hub.now_ms)]:
                self._codes[str(_SHUTS_DOWN)] += 1
                link.breaks(flight, worked=False, code=_SHUTS_DOWN)
                link.aim(flight)
        told = {flight.connection for flight in link.flights if flight.doom == _SHUTS_DOWN}
        for connection in link.connections:
            if connection not in told:
                self._codes[str(LOST_CONNECTION)] += 1
                link.cut_off(connection)

    def meets(self, link: Link, flight: Flight) -> None:
        """Through a proxy it is connected and hung up on; past it, refused."""
        code = REFUSED if link.is_direct else LOST_CONNECTION
        self._codes[str(code)] += 1
        link.never_arrives(flight)
        flight.work = None
        link.doom_at(flight, link.hub.now_ms + 1, code)

    def ends(self, link: Link) -> None:
        """It is back, and knows nobody."""

    def evidence(self) -> dict[str, Any]:
        """That it was started once more, and who noticed."""
        found = losses(self._codes)
        return {"starts": 1, "in_order": self._in_order, **found} if found else {}
