"""`disk_full`: no byte is left on the disk of the server's data, until the fault takes its ballast away.

Evidence: clients were told that a table or the disk is full, while the fault had taken what was free.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from harness.clock import monotonic_us
from harness.faults.database.client_errors import client_errors, fact
from harness.faults.fault import Evidence, Site
from harness.faults.kind import FaultKind
from harness.faults.seen import Seen

__all__ = ["KIND", "DiskFull"]

_FULL = (3, 28, 1021, 1030, 1114, 3675)
"""As different statements tell it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskFull:
    """Fills the server's disk."""

    name: str

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


KIND = FaultKind(
    name="disk_full",
    about="No byte is left on the disk of the database server; reads go on.",
    evidence="Clients were told that a table or the disk is full (1114), after the fault had taken all that was free.",
    outside=lambda fault, _seed: DiskFull(name=fault.id),
)
