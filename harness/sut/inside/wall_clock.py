"""The wall clock: an attempt's one door to the time of day, which may be set, stand still, or run too fast.

Answers to `System.currentTimeMillis` as an operator's code would ask it. The honest operator never asks: its timers
count on the loop's monotonic clock, which nobody can set (T1). Invariant: what a fault moved is measured through this
same door, as the difference between the two clocks.
"""

from __future__ import annotations

from harness.clock import monotonic_us, utc_now
from harness.faults.real.attempt_site import Shift

__all__ = ["WallClock"]

_NS_PER_US = 1000
_NS_PER_MS = 1_000_000


def _true(at_ns: int) -> int:
    del at_ns
    return 0


class WallClock:
    """Mutable: `shift` may be replaced."""

    def __init__(self) -> None:
        self._origin_ns = round(utc_now().timestamp() * 1_000_000_000) - monotonic_us() * _NS_PER_US
        self.shift: Shift = _true

    def now_ns(self) -> int:
        """The time of day, as the clock has it."""
        now_ns = monotonic_us() * _NS_PER_US
        return self._origin_ns + now_ns + self.shift(now_ns)

    def offset_ms(self) -> float:
        """How far it is ahead of the monotonic clock, less what it was ahead when it was made."""
        now_ns = monotonic_us() * _NS_PER_US
        return round((self.now_ns() - self._origin_ns - now_ns) / _NS_PER_MS, 1)

    def set_right(self) -> None:
        """What a fault did is over."""
        self.shift = _true
