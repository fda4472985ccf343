"""`disk_full`: no byte is left on the disk of the server's data, until the fault takes its ballast away.

Evidence: clients were told that a table or the disk is full, while the fault had taken what was free.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Literal

from harness.clock import monotonic_us
from harness.faults.model.fault import ServerFault
from harness.faults.model.fields import Lasts
from harness.faults.real.evidence import Evidence, Seen, client_errors, fact
from harness.faults.real.fault_site import Site
from harness.faults.simulated.act import Act
from harness.faults.simulated.on_server import OnServer

if TYPE_CHECKING:
    from harness.levels.sim.server import SimulatedServer
    from harness.levels.sim.simulation import Simulation

__all__ = ["DiskFull"]

_FULL = (3, 28, 1021, 1030, 1114, 3675)
"""As different statements tell it."""


class DiskFull(ServerFault):
    """Fills the server's disk."""

    about = "No byte is left on the disk of the database server; reads go on."
    must_show = (
        "Clients were told that a table or the disk is full (1114), after the fault had taken all "
        "that was free."
    )
    abilities = ("small-disk",)

    do: Literal["disk_full"]
    lasts: Lasts

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """Reads go on, and what fits into pages that a table has already."""
        try:
            site.found(began_us=monotonic_us())
            site.found(bytes_taken=site.server.fill_disk())
            yield
        finally:
            site.server.free_disk()

    def evidence(self, seen: Seen) -> Evidence:
        """Refused writes, by code."""
        met, taken = client_errors(seen, _FULL), fact(seen, "bytes_taken")
        return {"bytes_taken": taken, "codes": met} if met and taken else {}

    def simulated(self, run: Simulation) -> Act:

        def switch(server: SimulatedServer, *, on: bool) -> None:
            server.disk_full = on

        return OnServer(run, codes=_FULL, sets=partial(switch, on=True), puts_back=partial(switch, on=False))
