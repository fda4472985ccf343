"""`kill_connection`: end sessions of the run by KILL CONNECTION, one each `gap`.

The seed draws the session. Evidence: the fault ended sessions, and clients lost their connections.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Literal

from harness.faults.model.fault import ServerFault
from harness.faults.model.fields import Count, Gap, Lasts
from harness.faults.real.evidence import GONE, Evidence, Seen
from harness.faults.real.fault_site import Site, repeated_kills
from harness.faults.real.server_control import end_sessions, sessions_of_run
from harness.faults.simulated.acts import Act, Hunt, SimulatedRun

if TYPE_CHECKING:
    from harness.database.simulated.server import SimulatedServer

_GRACE_US = 5_000_000
"""The client of an idle connection notices the loss at its next use."""


class KillConnection(ServerFault):
    """Ends one session each `gap`, at most `count` (None: no limit)."""

    about = "Sessions of the run are ended by KILL CONNECTION, one each `gap`, at most `count`."
    must_show = "The fault ended sessions of the run, and clients lost their connections."
    can = ("res",)

    do: Literal["kill_connection"]
    lasts: Lasts
    gap: Gap = 100
    count: Count | None = None

    def inject(self, site: Site) -> AbstractContextManager[None]:
        """The server rolls the session's transaction back; its client notices at the next use."""
        return repeated_kills(
            site,
            self.id,
            find=lambda root: sessions_of_run(root, site.server),
            kill=end_sessions,
            gap_ms=self.gap,
            count=self.count,
        )

    def evidence(self, seen: Seen) -> Evidence:
        lost, killed = seen.client_errors(*GONE, grace_us=_GRACE_US), seen.last_fact("killed")
        return {"killed": killed, "codes": lost} if lost and killed else {}

    def simulated(self, run: SimulatedRun) -> Act:
        def kill_one(server: SimulatedServer) -> bool:
            known = server.clients()
            return bool(known) and server.kill(known[run.draw.index(len(known))].number)

        return Hunt(
            run,
            codes=GONE,
            kill_one=kill_one,
            gap_ms=self.gap,
            count=self.count,
            settles_ms=_GRACE_US // 1000,
        )
