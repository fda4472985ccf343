"""`latency`: every answer (or request) on a link is late by `delay` ms, give or take `jitter`.

Evidence: the proxy's log has delays in that direction, and calls took at least half of what was added. Without a
log, calls that lie inside the fault's time took longer than the others, in the median by at least that half
(`docs/references.md`, Measured), and none was answered sooner than the delay allows: calls that do not pass the
proxy show no such thing, however slow the machine.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

from harness.faults.fault import Site
from harness.faults.kind import FaultKind
from harness.faults.network.delayed_chunks import delayed_chunks
from harness.faults.network.slower_calls import slower_calls
from harness.faults.network.toxics import link_of, stream_of, toxics_on
from harness.faults.seen import Evidence, Seen
from harness.scenario import Fault

__all__ = ["KIND", "Latency"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Adds `delay_ms` to everything that flows `downstream` (answers) or `upstream` (requests)."""

    name: str
    link: str
    stream: str
    delay_ms: int
    jitter_ms: int

    def inject(self, site: Site) -> AbstractContextManager[None]:
        """Live connections are affected at once; what is held flows when it heals."""
        return toxics_on(
            site.control,
            self.link,
            name=self.name,
            type="latency",
            streams=(self.stream,),
            attributes={"latency": self.delay_ms, "jitter": self.jitter_ms},
        )

    def evidence(self, seen: Seen) -> Evidence:
        """What the proxy delayed, and calls as slow; without its log, the shift, and that no answer beat the delay."""
        slower = slower_calls(
            seen.over(self.link), by_ms=self.delay_ms / 2, none_below_ms=self.delay_ms - self.jitter_ms
        )
        held = delayed_chunks(seen, stream=self.stream)
        return {**slower, **held} if slower and held is not None else {}


def _made(fault: Fault, _seed: int) -> Latency:
    return Latency(
        name=fault.id,
        link=link_of(fault),
        stream=stream_of(fault),
        delay_ms=fault.delay or 0,
        jitter_ms=fault.jitter or 0,
    )


KIND = FaultKind(
    name="latency",
    about="Everything that crosses the link arrives later, by `delay` give or take `jitter`.",
    evidence="The proxy delayed bytes and calls took half the delay or more; without a log, the median rose by it.",
    outside=_made,
)
