"""`db_kill`: the server's process ends by SIGKILL, and is started again on the same port and data when it heals.

Answers to Jepsen's `db/Kill`. Evidence: past the proxy another start of the server is seen than before, and clients of
the run lost connections to the one that ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from harness.faults.database.new_start import ended_then_started, start_evidence
from harness.faults.fault import Evidence, Site
from harness.faults.kind import FaultKind
from harness.faults.seen import Seen

__all__ = ["KIND", "DatabaseKill"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseKill:
    """Kills the server."""

    name: str

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """It is gone while the block lasts; what it had acknowledged is there again afterwards."""
        with ended_then_started(site, site.server.kill):
            yield

    def evidence(self, seen: Seen) -> Evidence:
        """The two starts, and the clients' losses."""
        return start_evidence(seen)


KIND = FaultKind(
    name="db_kill",
    about="The database server dies by SIGKILL and is started again on the same port and data when the fault heals.",
    evidence="Past the proxy another start of the server is seen, and clients lost their connections to the old one.",
    outside=lambda fault, _seed: DatabaseKill(name=fault.id),
)
