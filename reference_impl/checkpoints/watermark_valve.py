"""Combines the watermarks and statuses of several channels into one watermark and one status.

Answers to Flink's `StatusWatermarkValve`. Invariant: the output watermark rises and is the minimum over the aligned
channels, which are active and have caught up with the output (W1, W2); an idle channel holds back nothing (W3,
FLINK-18934).

As after FLINK-40475: when all channels are idle, the highest watermark is emitted, in whatever order they became idle
(FLINK-7728); a channel that becomes active emits at once what it alone allows (FLINK-38454).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from reference_impl.elements import Watermark, WatermarkStatus

MIN_TIMESTAMP = -(2**63)
"""Below every watermark: the value of a channel before its first."""


class WatermarkOutput(Protocol):
    """Receives the valve's output."""

    def emit(self, element: Watermark | WatermarkStatus, /) -> None:
        """Emit a watermark above the last, or a changed status."""


@dataclass(slots=True, kw_only=True)
class _InputChannelStatus:
    """The state of one channel. Mutable."""

    watermark: int = MIN_TIMESTAMP
    idle: bool = False
    aligned: bool = True
    """Whether the channel counts for the minimum."""


class StatusWatermarkValve:
    """Combines the channels of one input. Mutable."""

    def __init__(self, number_of_channels: int) -> None:
        self._channels = [_InputChannelStatus() for _ in range(number_of_channels)]
        self._last_output = MIN_TIMESTAMP
        self._idle = False
        """The last emitted status."""

    @property
    def last_output_watermark(self) -> int | None:
        """The last watermark emitted, or None."""
        return None if self._last_output == MIN_TIMESTAMP else self._last_output

    @property
    def is_idle(self) -> bool:
        """Whether every channel is idle."""
        return self._idle

    def input_watermark(self, watermark: Watermark, channel_index: int, output: WatermarkOutput) -> None:
        """Ignores an idle channel, and a watermark that is not above the channel's last."""
        channel = self._channels[channel_index]
        if channel.idle or watermark.timestamp <= channel.watermark:
            return
        channel.watermark = watermark.timestamp
        self._align_if_caught_up(channel)
        self._emit_least_aligned(output)

    def input_watermark_status(
        self, status: WatermarkStatus, channel_index: int, output: WatermarkOutput
    ) -> None:
        """Ignores a status that does not change the channel's."""
        channel = self._channels[channel_index]
        if status.idle == channel.idle:
            return
        channel.idle = status.idle
        if status.idle:
            self._falls_idle(channel, output)
        else:
            self._wakes(channel, output)

    def _falls_idle(self, channel: _InputChannelStatus, output: WatermarkOutput) -> None:
        channel.aligned = False
        if all(other.idle for other in self._channels):
            self._emit_above_last(max(other.watermark for other in self._channels), output)
            self._idle = True
            output.emit(WatermarkStatus(idle=True))
        else:
            self._emit_least_aligned(output)

    def _wakes(self, channel: _InputChannelStatus, output: WatermarkOutput) -> None:
        """Emit the status before a watermark, which idle receivers would ignore."""
        self._align_if_caught_up(channel)
        if self._idle:
            self._idle = False
            output.emit(WatermarkStatus(idle=False))
        self._emit_least_aligned(output)

    def _align_if_caught_up(self, channel: _InputChannelStatus) -> None:
        if channel.watermark >= self._last_output:
            channel.aligned = True

    def _emit_least_aligned(self, output: WatermarkOutput) -> None:
        aligned = [channel.watermark for channel in self._channels if channel.aligned]
        if aligned:
            self._emit_above_last(min(aligned), output)

    def _emit_above_last(self, timestamp: int, output: WatermarkOutput) -> None:
        if timestamp > self._last_output:
            self._last_output = timestamp
            output.emit(Watermark(timestamp=timestamp))
