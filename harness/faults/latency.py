"""`latency`: every answer (or request) on a link is late by `delay` ms, give or take `jitter`.

Evidence: calls that lie inside the fault's time took longer than the others, in the median by at least half
of what was added (`docs/references.md`, Measured), and none was answered sooner than the delay allows. Calls
that do not pass the proxy show no such thing, however slow the machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from harness.faults.fault import Control, Evidence, Seen, Toxic, fastest_ms, median_ms
from harness.history.timed_call import TimedCall

__all__ = ["Latency"]

_CALLS_MIN = 5
_CLOCK_MS = 2
"""How much earlier than asked a proxy's timer may seem to fire, by our clock."""


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
        """The shift of the median, and that no call inside the window beat the delay.

        The baseline is the quicker side of the window: before it a run may still be warming up, after it be
        catching up, and either is slow for reasons of its own.
        """
        inside, usual = seen.inside(), _quicker(seen.before(), seen.after())
        slow, fastest = median_ms(inside), fastest_ms(inside)
        if len(inside) < _CALLS_MIN or slow is None or fastest is None or usual is None:
            return {}
        if slow - usual < self.delay_ms / 2 or fastest < self.delay_ms - self.jitter_ms - _CLOCK_MS:
            return {}
        return {
            "calls_inside": len(inside),
            "fastest_ms_inside": round(fastest, 1),
            "median_ms_inside": round(slow, 1),
            "median_ms_outside": round(usual, 1),
        }


def _quicker(before: Sequence[TimedCall], after: Sequence[TimedCall]) -> float | None:
    """The smaller median of the two sides that have calls enough."""
    medians = [median_ms(side) for side in (before, after) if len(side) >= _CALLS_MIN]
    return min((median for median in medians if median is not None), default=None)
