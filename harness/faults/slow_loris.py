"""`slow_loris`: split what crosses a link into pieces of `bytes` bytes, `gap` apart (Toxiproxy's `slicer`).

Evidence with a proxy log: pieces and gaps are within 10 % of the request, and at least five calls took half a gap or
more. Without a log: the median call took longer by half a gap. The last piece of a chunk may be smaller; timers may
be late.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from harness.faults.model.fault import Directed, LinkFault
from harness.faults.model.fields import Gap, Lasts, Size
from harness.faults.real.evidence import Evidence, ProxyEvidence, Seen
from harness.faults.real.fault_site import Toxic
from harness.faults.real.witnesses import slower_calls
from harness.faults.simulated.link_acts import Holding, moved_bytes

if TYPE_CHECKING:
    from harness.database.simulated.link import Flight, LinkAct, SimulatedLink

_OFF_MAX = 0.1
_LATE_MS = 2.0
"""How late a timer of the proxy may fire."""


class SlowLoris(LinkFault, Directed):
    """Splits one direction of the link into pieces of `bytes` bytes, `gap` apart."""

    about = "What crosses the link arrives in pieces of `bytes` bytes, `gap` apart."
    must_show = (
        "Pieces and gaps in the proxy's log are within 10 % of the request, and calls took half a gap or "
        "more; without a log, the median rose by half a gap."
    )
    can = ("late",)

    do: Literal["slow_loris"]
    lasts: Lasts
    bytes: Size
    gap: Gap

    def toxic(self) -> Toxic:
        """Affects live connections at once; healing releases the bytes held."""
        attributes = {"average_size": self.bytes, "size_variation": 0, "delay": self.gap * 1000}
        return Toxic("slicer", (self.stream,), attributes)

    def evidence(self, seen: Seen) -> Evidence:
        slower = slower_calls(seen.over(self.link), by_ms=self.gap / 2)
        if not slower or seen.log is None:
            return slower
        return self._as_written(slower, seen.did("sliced", stream=self.stream))

    def _as_written(self, slower: Evidence, sliced: Sequence[ProxyEvidence]) -> Evidence:
        """The size and spacing of the pieces that the proxy wrote; empty if not near the request."""
        whole = _sum(sliced, "pieces") - _sum(sliced, "tails")
        gaps = _sum(sliced, "gaps")
        if not whole or not gaps:
            return {}
        size = (sum(event.bytes for event in sliced) - _sum(sliced, "tail_bytes")) / whole
        gap_ms = _sum(sliced, "gap_us") / gaps / 1000
        if not _is_near(size, self.bytes) or not _is_near(gap_ms, self.gap, more=_LATE_MS):
            return {}
        return {
            **slower,
            "pieces": _sum(sliced, "pieces"),
            "bytes_a_piece": round(size, 2),
            "gap_ms": round(gap_ms, 2),
        }

    def on_links(self) -> LinkAct:
        """Holds each message by the time that its pieces would take."""

        def hold_ms(_link: SimulatedLink, flight: Flight) -> int:
            slices = -(-moved_bytes(flight, up=self.is_upward) // self.bytes)
            return (slices - 1) * self.gap

        return Holding(hold_ms, upward=self.is_upward)


def _sum(events: Sequence[ProxyEvidence], number: str) -> int:
    return sum(int(event.more.get(number, 0)) for event in events)


def _is_near(measured: float, asked: float, *, more: float = 0.0) -> bool:
    return (1 - _OFF_MAX) * asked <= measured <= (1 + _OFF_MAX) * asked + more
