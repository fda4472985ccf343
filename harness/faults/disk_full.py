"""`disk_full`: fill the file system of the server's data with a ballast file; healing deletes it.

Evidence: the ballast took all free bytes, and clients got an error for a full table or disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Literal

from harness.faults.model.fault import ServerFault
from harness.faults.model.fields import Lasts
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import Site
from harness.faults.simulated.acts import Act, OnServer, SimulatedRun
from harness.system.clock import monotonic_us

if TYPE_CHECKING:
    from harness.database.simulated.server import SimulatedServer

_FULL = (3, 28, 1021, 1030, 1114, 3675)
"""The error codes by which different statements report a full disk."""


class DiskFull(ServerFault):
    """Fills the server's file system."""

    about = "The disk of the database server is full; reads go on."
    must_show = (
        "Clients got an error for a full table or disk (such as 1114), after the fault had taken all free "
        "bytes."
    )
    abilities = ("small-disk",)
    not_in_jobs = (
        "fills the disk with the log from which a job is judged; write `do: sql_error`, `code: 1290`"
    )
    can = ("res",)

    do: Literal["disk_full"]
    lasts: Lasts

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """Reads go on, and so do writes that fit into a table's existing pages."""
        try:
            site.note_fact(began_us=monotonic_us())
            site.note_fact(bytes_taken=site.server.fill_disk())
            yield
        finally:
            site.server.free_disk()

    def evidence(self, seen: Seen) -> Evidence:
        met, taken = seen.client_errors(*_FULL), seen.last_fact("bytes_taken")
        return {"bytes_taken": taken, "codes": met} if met and taken else {}

    def simulated(self, run: SimulatedRun) -> Act:
        def switch(server: SimulatedServer, *, on: bool) -> None:
            server.disk_full = on

        return OnServer(run, codes=_FULL, sets=partial(switch, on=True), puts_back=partial(switch, on=False))
