"""The input of a task that reads channels.

Answers to Flink's `StreamTaskNetworkInput`. Invariant: each call reads at most one element, and its status says what
the task does next (M41); watermarks and statuses leave only through the valve.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from reference_impl.barriers.checkpointed_input_gate import CheckpointedInputGate
from reference_impl.barriers.input_channel_info import InputChannelInfo
from reference_impl.barriers.status_watermark_valve import StatusWatermarkValve
from reference_impl.data_input_status import DataInputStatus
from reference_impl.elements import OperatorInput, Record, Watermark, WatermarkStatus
from reference_impl.events import ChannelEvent, EndOfData, EndOfPartition, StopMode
from reference_impl.queues.availability import Availability

__all__ = ["DataOutput", "StreamTaskNetworkInput"]


class DataOutput(Protocol):
    """The head of the chain, or one of its two inputs."""

    def emit(self, element: OperatorInput, /) -> None:
        """Process it."""


class StreamTaskNetworkInput:
    """One gate, through the barriers and through the valve. Mutable; on the task's thread."""

    def __init__(
        self,
        gate: CheckpointedInputGate,
        *,
        input_index: int = 0,
        valve: Callable[[int], StatusWatermarkValve] = StatusWatermarkValve,
    ) -> None:
        self._gate = gate
        self._valve = valve(len(gate.input_gate.channels))
        self.input_index = input_index
        """Which of the operator's inputs it is, from 0."""

    def emit_next(self, output: DataOutput) -> DataInputStatus:
        """Read one element; give it to `output`, unless it is an event or the valve keeps it."""
        polled = self._gate.poll_next()
        if polled is None:
            return (
                DataInputStatus.END_OF_INPUT if self._gate.is_finished else DataInputStatus.NOTHING_AVAILABLE
            )
        channel, element = polled
        if isinstance(element, Record):
            output.emit(element)
        elif isinstance(element, ChannelEvent):
            return self._status_after(element)
        else:
            self._process(channel, element, output)
        return DataInputStatus.MORE_AVAILABLE

    def _process(self, channel: InputChannelInfo, element: OperatorInput, output: DataOutput) -> None:
        match element:
            case Watermark():
                self._valve.input_watermark(element, channel.input_channel_idx, output)
            case WatermarkStatus():
                self._valve.input_watermark_status(element, channel.input_channel_idx, output)
            case _:
                output.emit(element)

    def _status_after(self, event: ChannelEvent) -> DataInputStatus:
        match event:
            case EndOfData() if self._gate.end_of_data is not None:
                drains = self._gate.end_of_data is StopMode.DRAIN
                return DataInputStatus.END_OF_DATA if drains else DataInputStatus.STOPPED
            case EndOfPartition() if self._gate.is_finished:
                return DataInputStatus.END_OF_INPUT
            case _:
                return DataInputStatus.MORE_AVAILABLE

    @property
    def is_available(self) -> Availability:
        """Ended while `emit_next` has something to do."""
        return self._gate.is_available

    @property
    def current_watermark(self) -> int | None:
        """The last that left; None before the first."""
        return self._valve.last_output_watermark

    def close(self) -> None:
        """Wait for no barrier any more."""
        self._gate.close()
