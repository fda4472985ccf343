"""`latency`: every answer (or request) on a link is late by `delay` ms, give or take `jitter`.

Evidence: calls begun under the fault took longer than the others, in the median by at least half of what
was added (`spec/scenarios.md` 5b). A proxy that the calls do not pass shows no such shift.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from harness.faults.fault import Control, Evidence, Seen, Toxic, median_ms
from harness.history.timed_call import TimedCall

__all__ = ["Latency"]

_CALLS_MIN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Adds `delay_ms` to everything that flows `downstream` (answers) or `upstream` (requests)."""

    name: str
    link: str
    stream: str
    delay_ms: int
    jitter_ms: int

    @contextmanager
    def inject(self, control: Control) -> Iterator[None]:
        """Live connections are affected at once; what is held flows when it heals."""
        attributes = {"latency": self.delay_ms, "jitter": self.jitter_ms}
        toxic = Toxic(name=self.name, type="latency", stream=self.stream, attributes=attributes)
        try:
            control.add_toxic(self.link, toxic)
            yield
        finally:
            control.remove_toxic(self.link, self.name)

    def evidence(self, seen: Seen) -> Evidence:
        """The shift of the median, with both medians and how many calls they rest on."""
        during, outside = _ended(seen.during()), _ended(seen.outside())
        slow, usual = median_ms(during), median_ms(outside)
        if slow is None or usual is None or min(len(during), len(outside)) < _CALLS_MIN:
            return {}
        if slow - usual < self.delay_ms / 2:
            return {}
        return {
            "calls_during": len(during),
            "median_ms_during": round(slow, 1),
            "calls_outside": len(outside),
            "median_ms_outside": round(usual, 1),
        }


def _ended(calls: Sequence[TimedCall]) -> list[TimedCall]:
    """Those that a median can rest on."""
    return [call for call in calls if call.took_ms is not None]
