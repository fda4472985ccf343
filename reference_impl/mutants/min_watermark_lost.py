"""Planted defect: on the way in from several channels the least watermark is lost.

Answers to FLINK-40517: a channel that is new after a rescale has brought no watermark, and is left out of the least;
so the watermark runs ahead of what that channel has still to bring (W1; V4, V5).
"""

from __future__ import annotations

from reference_impl.checkpoints.watermark_valve import (
    MIN_TIMESTAMP,
    StatusWatermarkValve,
    WatermarkOutput,
)

__all__ = ["MinWatermarkLost"]


class MinWatermarkLost(StatusWatermarkValve):
    """Waits for no channel that it has not heard of."""

    def _emit_least_aligned(self, output: WatermarkOutput) -> None:
        known = [
            channel.watermark
            for channel in self._channels
            if channel.aligned and channel.watermark != MIN_TIMESTAMP
        ]
        if known:
            self._emit_above_last(min(known), output)
