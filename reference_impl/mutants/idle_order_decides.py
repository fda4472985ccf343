"""Planted defect: which watermark leaves when all channels are idle depends on who fell idle last.

Answers to FLINK-7728, and to what was left of it until FLINK-40475 (W3): with the last channel only the status
leaves, and so the highest watermark never does if its channel fell idle earlier.
"""

from __future__ import annotations

from reference_impl.checkpoints.watermark_valve import StatusWatermarkValve, WatermarkOutput
from reference_impl.elements import WatermarkStatus

__all__ = ["IdleOrderDecides"]


class IdleOrderDecides(StatusWatermarkValve):
    """Lets no watermark out when all are idle."""

    def input_watermark_status(
        self, status: WatermarkStatus, channel_index: int, output: WatermarkOutput
    ) -> None:
        """The last one to fall idle brings the status, and nothing else."""
        channel = self._channels[channel_index]
        others_idle = all(other.idle for other in self._channels if other is not channel)
        if status.idle and not channel.idle and others_idle:
            channel.idle, channel.aligned, self._idle = True, False, True
            output.emit(status)
        else:
            super().input_watermark_status(status, channel_index, output)
