"""`slow_loris`: what crosses a link arrives in pieces of a few `bytes`, each a `gap` after the one before.

Evidence: in a proxy's log pieces and gaps are within a tenth of what was asked for, and five calls took half a gap or
more; without a log, calls took longer in the median by that half. The last piece of a chunk may be smaller; a timer
may be late.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from harness.faults.fault import Deed, Site
from harness.faults.kind import FaultKind
from harness.faults.network.slower_calls import slower_calls
from harness.faults.network.toxics import link_of, stream_of, toxics_on
from harness.faults.seen import Evidence, Seen
from harness.scenario import Fault

__all__ = ["KIND", "SlowLoris"]

_OFF_MAX = 0.1
_LATE_MS = 2.0
"""How much later than asked a timer of the proxy may fire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowLoris:
    """Cuts what flows into pieces of `size` bytes, `gap_ms` apart."""

    name: str
    link: str
    stream: str
    size: int
    gap_ms: int

    def inject(self, site: Site) -> AbstractContextManager[None]:
        """Live connections are affected at once; what is held flows when it heals."""
        attributes = {"average_size": self.size, "size_variation": 0, "delay": self.gap_ms * 1000}
        return toxics_on(
            site.control,
            self.link,
            name=self.name,
            type="slicer",
            streams=(self.stream,),
            attributes=attributes,
        )

    def evidence(self, seen: Seen) -> Evidence:
        """How much longer calls took, and how small the pieces were."""
        slower = slower_calls(seen.over(self.link), by_ms=self.gap_ms / 2)
        if not slower or seen.deeds is None:
            return slower
        return self._as_written(slower, seen.did("sliced", stream=self.stream))

    def _as_written(self, slower: Evidence, sliced: Sequence[Deed]) -> Evidence:
        """What the proxy really wrote, if that is what was asked for."""
        whole = _sum(sliced, "pieces") - _sum(sliced, "tails")
        gaps = _sum(sliced, "gaps")
        if not whole or not gaps:
            return {}
        size = (sum(deed.bytes for deed in sliced) - _sum(sliced, "tail_bytes")) / whole
        gap_ms = _sum(sliced, "gap_us") / gaps / 1000
        if not _is_near(size, self.size) or not _is_near(gap_ms, self.gap_ms, more=_LATE_MS):
            return {}
        return {
            **slower,
            "pieces": _sum(sliced, "pieces"),
            "bytes_a_piece": round(size, 2),
            "gap_ms": round(gap_ms, 2),
        }


def _sum(deeds: Sequence[Deed], number: str) -> int:
    return sum(int(deed.more.get(number, 0)) for deed in deeds)


def _is_near(measured: float, asked: float, *, more: float = 0.0) -> bool:
    return (1 - _OFF_MAX) * asked <= measured <= (1 + _OFF_MAX) * asked + more


def _made(fault: Fault, _seed: int) -> SlowLoris:
    return SlowLoris(
        name=fault.id,
        link=link_of(fault),
        stream=stream_of(fault),
        size=fault.bytes or 1,
        gap_ms=fault.gap or 0,
    )


KIND = FaultKind(
    name="slow_loris",
    about="What crosses the link arrives in pieces of `bytes`, a `gap` apart.",
    evidence="Pieces and gaps in the proxy's log are within a tenth of those asked for, and calls took half a gap or "
    "more; without a log, the median rose by it.",
    outside=_made,
)
