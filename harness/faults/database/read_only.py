"""`read_only`: the server refuses every write of the run's user, as after a failover that left it a replica.

Evidence: clients were answered 1290 while the server said of itself that it was read-only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from harness.faults.database.client_errors import client_errors, fact
from harness.faults.database.server_variables import global_variables
from harness.faults.fault import Evidence, Site
from harness.faults.kind import FaultKind
from harness.faults.seen import Seen

__all__ = ["KIND", "ReadOnly"]

_REFUSED = (1290, 1836)
_WORD = "read_only"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOnly:
    """Makes the server read-only."""

    name: str

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """Root may still write; an open transaction of the run's user may not commit."""
        with global_variables(site, {_WORD: 1}):
            with site.server.root() as connection, connection.cursor() as cursor:
                cursor.execute("SELECT @@GLOBAL.read_only")
                site.found(read_only=int(cursor.fetchone()[0]))
            yield

    def evidence(self, seen: Seen) -> Evidence:
        """Refused writes, by code."""
        refused = client_errors(seen, _REFUSED)
        return {"codes": refused} if refused and fact(seen, _WORD) == 1 else {}


KIND = FaultKind(
    name="read_only",
    about="The database server only reads: it refuses every write, also the commit of an open transaction.",
    evidence="Clients were answered 1290 while the server said of itself that it was read-only.",
    outside=lambda fault, _seed: ReadOnly(name=fault.id),
)
