"""`oversized_packet`: the server takes no packet of more than `bytes`, so that a large statement is too large for it.

It holds for sessions that begin under it, so the run's sessions are ended first, and again when it heals. A server
takes what fits into its buffer whatever the bound is, so the buffer is bounded with it. Evidence: clients were
answered 1153 after their sessions had begun anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Literal

from harness.faults.model.fault import ServerFault
from harness.faults.model.fields import Lasts, Size
from harness.faults.real.evidence import Evidence, Seen, client_errors, fact
from harness.faults.real.fault_site import Site
from harness.faults.real.server_variables import variables_of_new_sessions
from harness.faults.simulated.act import Act
from harness.faults.simulated.on_server import OnServer

if TYPE_CHECKING:
    from harness.levels.sim.server import SimulatedServer
    from harness.levels.sim.simulation import Simulation

__all__ = ["OversizedPacket"]

_TOO_LARGE = 1153
_BYTES_MIN = 1024
"""No server takes less."""
_USUAL_BUFFER_BYTES = 16_384


class OversizedPacket(ServerFault):
    """Bounds packets to `bytes`."""

    about = "The database server takes no statement of more than `bytes` (1024 at least)."
    must_show = "Clients were answered 1153."

    do: Literal["oversized_packet"]
    lasts: Lasts
    bytes: Size = _BYTES_MIN

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """Small statements go on as ever."""
        bound = max(_BYTES_MIN, self.bytes)
        buffer = min(bound, _USUAL_BUFFER_BYTES)
        with variables_of_new_sessions(site, {"net_buffer_length": buffer, "max_allowed_packet": bound}):
            yield

    def evidence(self, seen: Seen) -> Evidence:
        """Refused statements."""
        met = client_errors(seen, (_TOO_LARGE,))
        return {"codes": met, "bytes_max": self.bytes} if met and fact(seen, "ended_us") else {}

    def simulated(self, run: Simulation) -> Act:

        def bound(server: SimulatedServer, *, bytes_max: int | None) -> None:
            server.packet_bytes_max = bytes_max
            server.end_clients()

        return OnServer(
            run,
            codes=(_TOO_LARGE,),
            sets=partial(bound, bytes_max=max(_BYTES_MIN, self.bytes)),
            puts_back=partial(bound, bytes_max=None),
        )
