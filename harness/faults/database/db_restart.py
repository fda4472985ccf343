"""`db_restart`: the server is asked to end, does so in order, and is started again when the fault heals.

Answers to an upgrade or a failover in a maintenance window. Evidence: past the proxy another start of the server is
seen than before, and clients of the run lost connections to the one that ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from harness.faults.database.new_start import ended_then_started, start_evidence
from harness.faults.fault import Evidence, Site
from harness.faults.kind import FaultKind
from harness.faults.seen import Seen

__all__ = ["KIND", "DatabaseRestart"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseRestart:
    """Restarts the server in order."""

    name: str

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """It is down while the block lasts."""
        with ended_then_started(site, site.server.shut_down):
            yield

    def evidence(self, seen: Seen) -> Evidence:
        """The two starts, and the clients' losses."""
        return start_evidence(seen)


KIND = FaultKind(
    name="db_restart",
    about="The database server shuts down in order and is started again on the same port and data when it heals.",
    evidence="Past the proxy another start of the server is seen, and clients lost their connections to the old one.",
    outside=lambda fault, _seed: DatabaseRestart(name=fault.id),
)
