"""`oversized_packet`: the server takes no packet of more than `bytes`, so that a large statement is too large for it.

It holds for sessions that begin under it, so the run's sessions are ended first, and again when it heals. A server
takes what fits into its buffer whatever the bound is, so the buffer is bounded with it. Evidence: clients were
answered 1153 after their sessions had begun anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from harness.faults.database.client_errors import client_errors, fact
from harness.faults.database.server_variables import variables_of_new_sessions
from harness.faults.fault import Evidence, Site
from harness.faults.kind import FaultKind
from harness.faults.seen import Seen

__all__ = ["KIND", "OversizedPacket"]

_TOO_LARGE = 1153
_BYTES_MIN = 1024
"""No server takes less."""
_USUAL_BUFFER_BYTES = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class OversizedPacket:
    """Bounds packets to `bytes_max`."""

    name: str
    bytes_max: int = _BYTES_MIN

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """Small statements go on as ever."""
        bound = max(_BYTES_MIN, self.bytes_max)
        buffer = min(bound, _USUAL_BUFFER_BYTES)
        with variables_of_new_sessions(site, {"net_buffer_length": buffer, "max_allowed_packet": bound}):
            yield

    def evidence(self, seen: Seen) -> Evidence:
        """Refused statements."""
        met = client_errors(seen, (_TOO_LARGE,))
        return {"codes": met, "bytes_max": self.bytes_max} if met and fact(seen, "ended_us") else {}


KIND = FaultKind(
    name="oversized_packet",
    about="The database server takes no statement of more than `bytes` (1024 at least).",
    evidence="Clients were answered 1153.",
    outside=lambda fault, _seed: OversizedPacket(name=fault.id, bytes_max=fault.bytes or _BYTES_MIN),
)
