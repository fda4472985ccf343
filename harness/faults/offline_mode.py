"""`offline_mode`: MySQL's `offline_mode`, as in a maintenance window: sessions end, and only root may connect.

MariaDB has no such mode. Evidence: the server's variable `offline_mode` was on, and clients got error 3032.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from harness.faults.model.fault import ServerFault
from harness.faults.model.fields import Lasts
from harness.faults.real.evidence import GONE, Evidence, Seen
from harness.faults.real.fault_site import Site, global_variables
from harness.faults.simulated.acts import Act, OnServer, SimulatedRun

if TYPE_CHECKING:
    from harness.database.simulated.server import SimulatedServer

_OFFLINE = 3032


class OfflineMode(ServerFault):
    """Switches `offline_mode` on."""

    about = (
        "The database server (MySQL only) goes into `offline_mode`: sessions end, and only root may connect."
    )
    must_show = "Clients got error 3032 while the server's variable `offline_mode` was on."
    abilities = ("offline-mode",)
    can = ("res",)

    do: Literal["offline_mode"]
    lasts: Lasts

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """The run's sessions end and new ones are refused; the server process goes on."""
        with global_variables(site, {"offline_mode": 1}):
            with site.server.root() as connection, connection.cursor() as cursor:
                cursor.execute("SELECT @@GLOBAL.offline_mode")
                site.note_fact(offline=int(cursor.fetchone()[0]))
            yield

    def evidence(self, seen: Seen) -> Evidence:
        """Refused and lost connections, by code; empty without an error 3032."""
        met = seen.client_errors(_OFFLINE, *GONE)
        return {"codes": met} if str(_OFFLINE) in met and seen.last_fact("offline") == 1 else {}

    def simulated(self, run: SimulatedRun) -> Act:
        def take_offline(server: SimulatedServer) -> None:
            server.is_offline = True
            server.end_clients()

        def put_online(server: SimulatedServer) -> None:
            server.is_offline = False

        return OnServer(run, codes=(_OFFLINE,), sets=take_offline, puts_back=put_online)
