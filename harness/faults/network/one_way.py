"""`one_way`: one direction of a link is late by `delay`, the other is as ever.

Evidence: as for latency; where the proxy keeps a log, it delayed bytes in that direction and none in the other.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

from harness.faults.fault import Site
from harness.faults.kind import FaultKind
from harness.faults.network.latency import Latency
from harness.faults.network.toxics import link_of, stream_of
from harness.faults.seen import Evidence, Seen
from harness.scenario import Fault

__all__ = ["KIND", "OneWay"]

_OTHER = {"upstream": "downstream", "downstream": "upstream"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OneWay:
    """A latency in one direction that must leave the other alone."""

    latency: Latency

    def inject(self, site: Site) -> AbstractContextManager[None]:
        """Live connections are affected at once; what is held flows when it heals."""
        return self.latency.inject(site)

    def evidence(self, seen: Seen) -> Evidence:
        """Latency's, and that the proxy held nothing the other way."""
        held = self.latency.evidence(seen)
        if not held or seen.deeds is None:
            return held
        other = seen.did("delayed", stream=_OTHER[self.latency.stream])
        return {} if other else {**held, "bytes_delayed_the_other_way": 0}


def _made(fault: Fault, _seed: int) -> OneWay:
    return OneWay(
        latency=Latency(
            name=fault.id,
            link=link_of(fault),
            stream=stream_of(fault),
            delay_ms=fault.delay or 0,
            jitter_ms=0,
        )
    )


KIND = FaultKind(
    name="one_way",
    about="One direction of the link is later by `delay`; the other is as ever.",
    evidence="As for `latency`, and the proxy delayed nothing the other way.",
    outside=_made,
)
