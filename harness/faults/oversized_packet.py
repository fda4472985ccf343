"""`oversized_packet`: the server takes no packet of more than `bytes`, so that a large statement is too large for it.

It holds for sessions that begin under it, so the run's sessions are ended first, and again when it heals. A server
takes what fits into its buffer whatever the bound is, so the buffer is bounded with it. Evidence: clients were
answered 1153 after their sessions had begun anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from harness.faults.model.fault import ServerFault
from harness.faults.model.fields import Lasts, Size
from harness.faults.real.client_errors import client_errors, fact
from harness.faults.real.fault_site import Site
from harness.faults.real.seen import Evidence, Seen
from harness.faults.real.server_variables import variables_of_new_sessions
from harness.faults.simulated.act import LinkAct
from harness.faults.simulated.says import statements_of

if TYPE_CHECKING:
    from harness.sim.link import Flight, Link

__all__ = ["OversizedPacket", "SimulatedLimit"]

_TOO_LARGE = 1153
_BYTES_MIN = 1024
"""No server takes less."""
_USUAL_BUFFER_BYTES = 16_384


class OversizedPacket(ServerFault):
    """Bounds packets to `bytes`."""

    about = "The database server takes no statement of more than `bytes` (1024 at least)."
    must_show = "Clients were answered 1153."
    simulated_on = ("sink",)

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

    def on_links(self) -> LinkAct:
        """See `ServerFault`."""
        return SimulatedLimit(self.bytes)


class SimulatedLimit:
    """A statement of more than so many bytes is refused, and its connection ends. Mutable: counts."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = max(_BYTES_MIN, bytes_max)
        self._refused = 0

    def begins(self, link: Link) -> None:
        """It holds for sessions that begin now: the others are ended first."""
        link.cut()

    def meets(self, link: Link, flight: Flight) -> None:
        """Refuse it, if it is too large."""
        if flight.doom is None and any(
            statement.asks > self._bytes_max for statement in statements_of(flight)
        ):
            self._refused += 1
            link.breaks(flight, worked=False, code=_TOO_LARGE)

    def ends(self, link: Link) -> None:
        """Larger ones are taken again, in sessions that begin now."""
        link.cut()

    def evidence(self) -> dict[str, Any]:
        """How many were refused."""
        found = {"codes": {str(_TOO_LARGE): self._refused}, "bytes_max": self._bytes_max}
        return found if self._refused else {}
