"""One watermark and one status out of those of several channels.

Answers to Flink's `StatusWatermarkValve`. Invariant: what leaves rises, and is the least over the channels that
count: those that are active and have caught up with what has left (W1, W2); an idle channel holds nobody back (W3,
FLINK-18934).

With FLINK-40475: when all channels are idle the highest leaves whatever the order in which they fell idle
(FLINK-7728), and a channel that wakes lets out at once what it alone allows (FLINK-38454).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from reference_impl.elements import Watermark, WatermarkStatus

__all__ = ["MIN_TIMESTAMP", "StatusWatermarkValve", "WatermarkOutput"]

MIN_TIMESTAMP = -(2**63)
"""Below every watermark: of a channel from which none has come."""


class WatermarkOutput(Protocol):
    """Where what leaves goes."""

    def emit(self, element: Watermark | WatermarkStatus, /) -> None:
        """A watermark above the last, or a status that is not the last."""


@dataclass(slots=True, kw_only=True)
class _Channel:
    """What has come of one. Mutable."""

    watermark: int = MIN_TIMESTAMP
    idle: bool = False
    aligned: bool = True
    """Whether it counts."""


class StatusWatermarkValve:
    """Between the channels of an input and the task. Mutable."""

    def __init__(self, number_of_channels: int) -> None:
        self._channels = [_Channel() for _ in range(number_of_channels)]
        self._last_output = MIN_TIMESTAMP
        self._idle = False
        """What the last status said."""

    @property
    def last_output_watermark(self) -> int | None:
        """The last that left; None before the first."""
        return None if self._last_output == MIN_TIMESTAMP else self._last_output

    @property
    def is_idle(self) -> bool:
        """Whether every channel is."""
        return self._idle

    def input_watermark(self, watermark: Watermark, channel_index: int, output: WatermarkOutput) -> None:
        """Of an idle channel, or one that does not rise, it does nothing."""
        channel = self._channels[channel_index]
        if channel.idle or watermark.timestamp <= channel.watermark:
            return
        channel.watermark = watermark.timestamp
        self._align_if_caught_up(channel)
        self._emit_least_aligned(output)

    def input_watermark_status(
        self, status: WatermarkStatus, channel_index: int, output: WatermarkOutput
    ) -> None:
        """Only a change counts."""
        channel = self._channels[channel_index]
        if status.idle == channel.idle:
            return
        channel.idle = status.idle
        if status.idle:
            self._falls_idle(channel, output)
        else:
            self._wakes(channel, output)

    def _falls_idle(self, channel: _Channel, output: WatermarkOutput) -> None:
        channel.aligned = False
        if all(other.idle for other in self._channels):
            self._emit_above_last(max(other.watermark for other in self._channels), output)
            self._idle = True
            output.emit(WatermarkStatus(idle=True))
        else:
            self._emit_least_aligned(output)

    def _wakes(self, channel: _Channel, output: WatermarkOutput) -> None:
        """The status leaves before a watermark, which those behind would ignore while they are idle."""
        self._align_if_caught_up(channel)
        if self._idle:
            self._idle = False
            output.emit(WatermarkStatus(idle=False))
        self._emit_least_aligned(output)

    def _align_if_caught_up(self, channel: _Channel) -> None:
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
