"""`max_connections`: other sessions use up the server's connection limit, and the run's sessions are ended.

Evidence: clients got error 1040, and the server's own counter of connects refused for that reason rose.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Literal

from harness.database.endpoint import MySqlConnection
from harness.faults.model.fault import ServerFault
from harness.faults.model.fields import Connections, Lasts
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import Site, global_variables, note_rises
from harness.faults.real.server_control import RootLine, end_all_sessions, repeating
from harness.faults.simulated.acts import Act, OnServer, SimulatedRun
from harness.system.clock import monotonic_us

if TYPE_CHECKING:
    from harness.database.simulated.server import SimulatedServer

_TOO_MANY_CONNECTIONS = 1040
_STRANGERS = 10
"""How many other sessions to open: MariaDB accepts no limit below ten."""
_LOOK_S = 0.1
_COUNTER = "Connection_errors_max_connections"


class MaxConnections(ServerFault):
    """Leaves only `connections` connections for the run."""

    about = (
        "The database server admits only `connections` (0) sessions of the run, and ends its present ones."
    )
    must_show = "Clients got error 1040, and the server's own counter of such refusals rose."
    can = ("res",)

    do: Literal["max_connections"]
    lasts: Lasts
    connections: Connections = 0

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """Opens the other sessions, lowers the limit, then ends the run's sessions, so that none can reconnect."""
        server, note = site.server, note_rises(site, "refused")
        before = server.counters().get(_COUNTER, 0)

        def look(root: MySqlConnection) -> None:
            with root.cursor() as cursor:
                cursor.execute("SHOW GLOBAL STATUS LIKE %s", (_COUNTER,))
                note(int(cursor.fetchone()[1]) - before)

        with ExitStack() as strangers, RootLine(server) as line:
            for _ in range(_STRANGERS):
                strangers.enter_context(server.root())
            line(lambda root: root.ping())  # connect now: once the server is full it is too late
            with global_variables(site, {"max_connections": _STRANGERS + 1 + self.connections}):
                site.note_fact(began_us=monotonic_us())
                line(lambda root: end_all_sessions(root, server))
                try:
                    with repeating(lambda: line(look), _LOOK_S):
                        yield
                finally:
                    strangers.close()  # so that root can connect and restore the limit

    def evidence(self, seen: Seen) -> Evidence:
        met, refused = seen.client_errors(_TOO_MANY_CONNECTIONS), seen.last_fact("refused")
        return {"refused": refused, "codes": met} if met and refused else {}

    def simulated(self, run: SimulatedRun) -> Act:
        def fill(server: SimulatedServer) -> None:
            server.sessions_max = self.connections
            server.end_clients()

        def empty(server: SimulatedServer) -> None:
            server.sessions_max = None

        return OnServer(run, codes=(_TOO_MANY_CONNECTIONS,), sets=fill, puts_back=empty)
