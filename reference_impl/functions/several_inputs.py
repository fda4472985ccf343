"""The doors of an operator with several inputs: records to their side, one event time for all.

Answers to what Flink's `AbstractStreamOperator` does in `processWatermark1`, `processWatermarkStatus2` and their like.
Invariant: the operator's watermark is the least of its active inputs', and it is idle while all of them are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reference_impl.elements import OperatorInput, Record, Watermark, WatermarkStatus
from reference_impl.functions.combined_watermark_status import CombinedWatermarkStatus
from reference_impl.internal_timers.watermark_emission import PassWatermark

__all__ = ["SeveralInputs"]


class SeveralInputs:
    """One door each, counted from 0. Mutable."""

    def __init__(
        self,
        take_record: Sequence[Callable[[Record], None]],
        *,
        pass_watermark: PassWatermark,
        emit: Callable[[OperatorInput], None],
    ) -> None:
        """`take_record`: what to do with a record of each input."""
        self._take_record = take_record
        self._combined = CombinedWatermarkStatus(len(take_record))
        self._pass_watermark = pass_watermark
        self._emit = emit

    def process(self, index: int, element: OperatorInput) -> None:
        """An element of that input; what is neither record, watermark nor status goes on."""
        match element:
            case Record():
                self._take_record[index](element)
            case Watermark():
                self.process_watermark(index, element)
            case WatermarkStatus():
                self.process_watermark_status(index, element)
            case _:
                self._emit(element)

    def process_watermark(self, index: int, watermark: Watermark) -> None:
        """It passes if it lets the combined one rise."""
        if self._combined.update_watermark(index, watermark.timestamp):
            self._pass_combined(watermark.position)

    def process_watermark_status(self, index: int, status: WatermarkStatus) -> None:
        """It passes if the operator as a whole falls idle or wakes up; that one input is idle may let time go on."""
        was_idle = self._combined.is_idle
        if self._combined.update_status(index, idle=status.idle):
            self._pass_combined(status.position)
        if was_idle != self._combined.is_idle:
            self._emit(status)

    def _pass_combined(self, position: int | None) -> None:
        """It has the position of what let it rise."""
        self._pass_watermark(Watermark(timestamp=self._combined.watermark, position=position))
