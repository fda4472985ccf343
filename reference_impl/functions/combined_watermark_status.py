"""The watermark of an operator with several inputs: the least of those that are active.

Answers to Flink's `IndexedCombinedWatermarkStatus`. Invariant: the combined watermark never falls; an idle input holds
nobody back, and while all are idle it stands still.
"""

from __future__ import annotations

from reference_impl.internal_timers.internal_timer_service import MIN_WATERMARK

__all__ = ["CombinedWatermarkStatus"]


class CombinedWatermarkStatus:
    """Of as many inputs as there are, counted from 0. Mutable."""

    def __init__(self, inputs: int) -> None:
        self._watermarks = [MIN_WATERMARK] * inputs
        self._idle = [False] * inputs
        self.watermark = MIN_WATERMARK

    @property
    def is_idle(self) -> bool:
        """Whether every input is."""
        return all(self._idle)

    def update_watermark(self, index: int, timestamp: int) -> bool:
        """The input's watermark has come, and so it is active; whether the combined one rises."""
        self._idle[index] = False
        self._watermarks[index] = max(self._watermarks[index], timestamp)
        return self._combine()

    def update_status(self, index: int, *, idle: bool) -> bool:
        """The input falls idle or is active again; whether the combined watermark rises."""
        self._idle[index] = idle
        return self._combine()

    def _combine(self) -> bool:
        active = [mark for mark, idle in zip(self._watermarks, self._idle, strict=True) if not idle]
        least = min(active, default=MIN_WATERMARK)
        if least <= self.watermark:
            return False
        self.watermark = least
        return True
