"""`kill_query`: interrupt running statements of the run by KILL QUERY, one each `gap`.

Answers to an administrator or watchdog that ends slow statements. The seed draws the statement. Evidence: the fault
killed statements, and clients got error 1317.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Literal

from harness.database.endpoint import MySqlConnection
from harness.faults.model.fault import ServerFault
from harness.faults.model.fields import Count, Gap, Lasts, OnLink
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import Site, repeated_kills
from harness.faults.real.server_control import Session, interrupt, sessions_of_run
from harness.faults.simulated.acts import Act, Hunt, SimulatedRun
from harness.system.clock import Deadline, wait_until

if TYPE_CHECKING:
    from harness.database.simulated.server import SimulatedServer

_INTERRUPTED = 1317
_LOOK_S = 0.25
"""How long to poll for a running statement, every millisecond: statements last about that long."""


class KillQuery(ServerFault):
    """Kills one running statement each `gap`, at most `count` (None: no limit), of `link` (None: any)."""

    about = "Running statements of the run are interrupted by KILL QUERY, one each `gap`, at most `count`."
    must_show = "The fault killed statements of the run, and clients got error 1317."
    can = ("res",)

    do: Literal["kill_query"]
    lasts: Lasts
    link: OnLink | None = None
    gap: Gap = 10
    count: Count | None = None

    def inject(self, site: Site) -> AbstractContextManager[None]:
        """The connections stay usable."""

        def running(root: MySqlConnection) -> list[Session]:
            sessions: list[Session] = []

            def found() -> bool:
                of_run = sessions_of_run(root, site.server)
                sessions[:] = [one for one in of_run if self._is_meant(one.statement)]
                return bool(sessions) or site.over.is_set()

            wait_until(found, deadline=Deadline(_LOOK_S), every_s=0.001)
            return sessions

        return repeated_kills(site, self.id, find=running, kill=interrupt, gap_ms=self.gap, count=self.count)

    def evidence(self, seen: Seen) -> Evidence:
        met, killed = seen.client_errors(_INTERRUPTED), seen.last_fact("killed")
        return {"killed": killed, "codes": met} if met and killed else {}

    def simulated(self, run: SimulatedRun) -> Act:
        def kill_one(server: SimulatedServer) -> bool:
            meant = [one for one in server.clients() if self._is_meant(one.statement)]
            return bool(meant) and server.kill_query(meant[run.draw.index(len(meant))].number)

        return Hunt(run, codes=(_INTERRUPTED,), kill_one=kill_one, gap_ms=self.gap, count=self.count)

    def _is_meant(self, statement: str) -> bool:
        """Whether to act on a session that executes `statement` (empty: none)."""
        return bool(statement) and (
            self.link is None or (self.link == "lookups") == ("customer" in statement)
        )
