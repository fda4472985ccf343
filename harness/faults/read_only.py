"""`read_only`: set the server's variable `read_only`, as after a failover that left it a replica.

Evidence: the server's variable `read_only` was on, and clients got error 1290 or 1836.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Literal

from harness.faults.model.fault import ServerFault
from harness.faults.model.fields import Lasts
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import Site, global_variables
from harness.faults.simulated.acts import Act, OnServer, SimulatedRun

if TYPE_CHECKING:
    from harness.database.simulated.server import SimulatedServer

_REFUSED = (1290, 1836)
_VARIABLE = "read_only"


class ReadOnly(ServerFault):
    """Switches the server's variable `read_only` on."""

    about = (
        "The database server is read-only: it refuses every write, also the commit of an open transaction."
    )
    must_show = "Clients got error 1290 while the server's variable `read_only` was on."
    can = ("res",)

    do: Literal["read_only"]
    lasts: Lasts

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """Root may still write; an open transaction of the run's user cannot commit."""
        with global_variables(site, {_VARIABLE: 1}):
            with site.server.root() as connection, connection.cursor() as cursor:
                cursor.execute("SELECT @@GLOBAL.read_only")
                site.note_fact(read_only=int(cursor.fetchone()[0]))
            yield

    def evidence(self, seen: Seen) -> Evidence:
        refused = seen.client_errors(*_REFUSED)
        return {"codes": refused} if refused and seen.last_fact(_VARIABLE) == 1 else {}

    def simulated(self, run: SimulatedRun) -> Act:
        def switch(server: SimulatedServer, *, on: bool) -> None:
            server.read_only = on

        return OnServer(
            run, codes=_REFUSED, sets=partial(switch, on=True), puts_back=partial(switch, on=False)
        )
