"""`jitter`: what crosses a link is late by nothing up to `jitter`, each chunk by another time.

Evidence: as for a latency of half of it, for that is what it adds on average; where the proxy keeps a log, the times
it held chunks for must differ.
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

__all__ = ["KIND", "Jitter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Jitter:
    """Holds each chunk that flows `downstream` (answers) or `upstream` (requests) for 0 to `jitter_ms`."""

    name: str
    link: str
    stream: str
    jitter_ms: int

    def inject(self, site: Site) -> AbstractContextManager[None]:
        """Live connections are affected at once; what is held flows when it heals."""
        half_ms = self.jitter_ms // 2
        attributes = {"latency": half_ms, "jitter": half_ms}
        return toxics_on(
            site.control,
            self.link,
            name=self.name,
            type="latency",
            streams=(self.stream,),
            attributes=attributes,
        )

    def evidence(self, seen: Seen) -> Evidence:
        """Calls that took half of the average delay, and that the proxy's delays were not all alike."""
        slower = slower_calls(seen.over(self.link), by_ms=self.jitter_ms / 4)
        held = delayed_chunks(seen, stream=self.stream)
        if not slower or held is None:
            return {}
        if seen.deeds is None:
            return slower
        delays_ms = [deed.ms for deed in seen.did("delayed", stream=self.stream)]
        if min(delays_ms) == max(delays_ms):
            return {}
        return {**slower, **held, "shortest_delay_ms": min(delays_ms)}


def _made(fault: Fault, _seed: int) -> Jitter:
    return Jitter(name=fault.id, link=link_of(fault), stream=stream_of(fault), jitter_ms=fault.jitter or 0)


KIND = FaultKind(
    name="jitter",
    about="Each chunk that crosses the link is held for another time, nothing up to `jitter`.",
    evidence="Calls took a quarter of it or more, and the proxy's delays differ; without a log, the median rose by it.",
    outside=_made,
)
