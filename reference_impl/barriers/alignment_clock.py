"""How long barriers take to come together.

Answers to the metrics in Flink's `CheckpointBarrierHandler`. Invariant: each checkpoint that is begun sets both
figures anew, neither is ever negative, and with one channel the duration is 0 (C31).
"""

from __future__ import annotations

from collections.abc import Callable

from reference_impl.checkpoint_metadata import CheckpointMetrics
from reference_impl.events import CheckpointBarrier

__all__ = ["AlignmentClock", "MeasuredAlignment"]


class AlignmentClock:
    """Of one barrier handler. Mutable."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._started_ms: int | None = None
        """None outside of an alignment."""
        self._duration_ms = 0
        self._start_delay_ms = 0

    def start(self, barrier: CheckpointBarrier) -> None:
        """Its first barrier is there: announced or not, for it is barriers that hold up (FLINK-24068)."""
        now_ms = self._now_ms()
        self._started_ms = now_ms
        self._start_delay_ms = max(now_ms - barrier.timestamp, 0)

    def end(self) -> None:
        """The last one is there."""
        if self._started_ms is not None:
            self._duration_ms = self._now_ms() - self._started_ms
            self._started_ms = None

    def reset(self) -> None:
        """It was given up, and has no duration."""
        self._started_ms = None
        self._duration_ms = 0

    @property
    def alignment_duration_ms(self) -> int:
        """Of the last alignment, or of this one until now."""
        return self._duration_ms if self._started_ms is None else self._now_ms() - self._started_ms

    @property
    def checkpoint_start_delay_ms(self) -> int:
        """Between the triggering and the first barrier."""
        return self._start_delay_ms

    @property
    def metrics(self) -> CheckpointMetrics:
        """As they are now."""
        return CheckpointMetrics(
            alignment_duration_ms=self.alignment_duration_ms,
            checkpoint_start_delay_ms=self._start_delay_ms,
        )


class MeasuredAlignment:
    """What a barrier handler tells of its alignments (C31). Mutable: its clock."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._clock = AlignmentClock(now_ms)

    @property
    def alignment_duration_ms(self) -> int:
        """How long the last alignment took, or has taken until now; of several at a time, the newest."""
        return self._clock.alignment_duration_ms

    @property
    def checkpoint_start_delay_ms(self) -> int:
        """How long the last checkpoint's first barrier was on its way."""
        return self._clock.checkpoint_start_delay_ms
