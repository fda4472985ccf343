"""`oversized_packet`: lower the server's `max_allowed_packet` to `bytes`, so that it refuses large statements.

The limit applies to new sessions, so the run's sessions are ended at the beginning, and again when the fault heals. A
server accepts any statement that fits into its buffer (`net_buffer_length`), so that is lowered too. Evidence: clients
got error 1153 after their sessions were renewed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Literal

from harness.faults.model.fault import ServerFault
from harness.faults.model.fields import Lasts, Size
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import Site, variables_of_new_sessions
from harness.faults.simulated.acts import Act, OnServer, SimulatedRun

if TYPE_CHECKING:
    from harness.database.simulated.server import SimulatedServer

_TOO_LARGE = 1153
_BYTES_MIN = 1024
"""The smallest `max_allowed_packet` that servers accept."""
_USUAL_BUFFER_BYTES = 16_384


class OversizedPacket(ServerFault):
    """Lowers the packet limit to `bytes`."""

    about = "The database server refuses statements of more than `bytes` bytes (at least 1024)."
    must_show = "Clients got error 1153 after the fault had ended their sessions."
    can = ("res",)

    do: Literal["oversized_packet"]
    lasts: Lasts
    bytes: Size = _BYTES_MIN

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """Smaller statements are served as before."""
        bound = max(_BYTES_MIN, self.bytes)
        buffer = min(bound, _USUAL_BUFFER_BYTES)
        with variables_of_new_sessions(site, {"net_buffer_length": buffer, "max_allowed_packet": bound}):
            yield

    def evidence(self, seen: Seen) -> Evidence:
        met = seen.client_errors(_TOO_LARGE)
        return {"codes": met, "bytes_max": self.bytes} if met and seen.last_fact("ended_us") else {}

    def simulated(self, run: SimulatedRun) -> Act:
        def bound(server: SimulatedServer, *, bytes_max: int | None) -> None:
            server.packet_bytes_max = bytes_max
            server.end_clients()

        return OnServer(
            run,
            codes=(_TOO_LARGE,),
            sets=partial(bound, bytes_max=max(_BYTES_MIN, self.bytes)),
            puts_back=partial(bound, bytes_max=None),
        )
