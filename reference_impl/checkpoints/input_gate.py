"""The input of a task that reads channels: the gate, the barrier handler's gate, the valve of watermarks.

Answers to Flink's `StatusWatermarkValve`. Invariant: the output watermark rises and is the minimum over the aligned
channels, which are active and have caught up with the output (W1, W2); an idle channel holds back nothing (W3,
FLINK-18934).

As after FLINK-40475: when all channels are idle, the highest watermark is emitted, in whatever order they became idle
(FLINK-7728); a channel that becomes active emits at once what it alone allows (FLINK-38454).

Answers to Flink's `SingleInputGate`, `CheckpointedInputGate` and `StreamTaskNetworkInput`. Invariant: a gate delivers
priority events first, and every event passes the barrier handler exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from reference_impl.checkpoint_events import (
    CancelCheckpointMarker,
    ChannelEvent,
    CheckpointBarrier,
    EndOfData,
    EndOfPartition,
    EventAnnouncement,
    StopMode,
)
from reference_impl.checkpoints.barrier_states import CheckpointBarrierHandler
from reference_impl.checkpoints.channels import ChannelElement, InputChannel, InputChannelInfo
from reference_impl.elements import (
    LatencyMarker,
    OperatorInput,
    Record,
    RecordAttributes,
    Watermark,
    WatermarkStatus,
)
from reference_impl.errors import MailboxClosed
from reference_impl.mailbox.availability import AVAILABLE, Availability, DataInputStatus
from reference_impl.mailbox.mailbox import MailboxExecutor

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


ChooseChannel = Callable[[Sequence[InputChannel]], InputChannel]
"""Chooses the next channel from those that have something to read."""


class InTurn:
    """Round robin over the channels. Mutable: remembers the last one."""

    def __init__(self) -> None:
        self._last = -1

    def __call__(self, channels: Sequence[InputChannel]) -> InputChannel:
        chosen = next((c for c in channels if c.info.input_channel_idx > self._last), channels[0])
        self._last = chosen.info.input_channel_idx
        return chosen


class InputGate:
    """Several channels read as one input. Mutable; used on the task's thread.

    Answers to Flink's `SingleInputGate` and `CheckpointableInput`. Invariant: priority events come first, from the
    lowest channel that has one; otherwise `choose` picks among the readable channels, by default round robin.
    """

    def __init__(self, channels: Sequence[InputChannel], *, choose: ChooseChannel | None = None) -> None:
        for index, channel in enumerate(channels):
            if channel.info != InputChannelInfo(channels[0].info.gate_idx, index):
                raise ValueError(
                    f"{channel.info} is at index {index}; give the channels of one gate in the order of their indexes"
                )
            channel.on_change = self._tell
        self.channels = tuple(channels)
        self._choose = choose or InTurn()
        self._available = AVAILABLE
        self._priority_available = AVAILABLE
        self._unended = dict.fromkeys(channel.info for channel in channels)
        """Channels whose end of data was not read yet."""
        self._stop_mode = StopMode.DRAIN

    def poll_next(self) -> tuple[InputChannelInfo, ChannelElement] | None:
        """The next element and its channel, or None."""
        channel = self._next_channel()
        element = None if channel is None else channel.poll()
        if channel is None or element is None:
            return None
        if isinstance(element, EndOfData):
            self._unended.pop(channel.info, None)
            if element.mode is StopMode.NO_DRAIN:
                self._stop_mode = StopMode.NO_DRAIN
        return channel.info, element

    def _next_channel(self) -> InputChannel | None:
        if len(self.channels) == 1:
            return self.channels[0]  # fast path: nothing to choose
        for channel in self.channels:
            if channel.has_priority_event:
                return channel
        readable = [channel for channel in self.channels if channel.is_readable]
        return self._choose(readable) if readable else None

    @property
    def is_available(self) -> Availability:
        """Available while there is something to read, or once all channels have ended."""
        if self.is_finished or any(channel.is_readable for channel in self.channels):
            return AVAILABLE
        if self._available:
            self._available = Availability()
        return self._available

    @property
    def is_priority_event_available(self) -> Availability:
        """Available while there is a priority event."""
        if any(channel.has_priority_event for channel in self.channels):
            return AVAILABLE
        if self._priority_available:
            self._priority_available = Availability()
        return self._priority_available

    @property
    def is_finished(self) -> bool:
        """Whether the end of every channel has been read."""
        return all(channel.is_finished for channel in self.channels)

    @property
    def end_of_data(self) -> StopMode | None:
        """How the data ended, once they have in every channel: DRAIN only if every channel says so."""
        return None if self._unended else self._stop_mode

    def _tell(self) -> None:
        if not self._priority_available and any(channel.has_priority_event for channel in self.channels):
            self._priority_available.end()
        if not self._available and any(channel.is_readable for channel in self.channels):
            self._available.end()

    @property
    def channel_infos(self) -> tuple[InputChannelInfo, ...]:
        return tuple(channel.info for channel in self.channels)

    def block_consumption(self, info: InputChannelInfo) -> None:
        self.channels[info.input_channel_idx].block()

    def resume_consumption(self, info: InputChannelInfo) -> None:
        self.channels[info.input_channel_idx].resume()

    def convert_to_priority_event(self, info: InputChannelInfo, sequence_number: int) -> None:
        self.channels[info.input_channel_idx].convert_to_priority_event(sequence_number)

    def checkpoint_started(self, barrier: CheckpointBarrier) -> None:
        """Start capturing in every channel."""
        for channel in self.channels:
            channel.checkpoint_started(barrier)

    def checkpoint_stopped(self, checkpoint_id: int) -> None:
        for channel in self.channels:
            channel.checkpoint_stopped(checkpoint_id)


class CheckpointedInputGate:
    """A gate that passes every event to the task's barrier handler. Several gates may share a handler. Mutable.

    Answers to Flink's `CheckpointedInputGate`. Invariant: every event passes the barrier handler exactly once, before
    anything after it is read; a priority event does not wait behind records, since a mail fetches it (C26).
    """

    def __init__(
        self, input_gate: InputGate, barrier_handler: CheckpointBarrierHandler, executor: MailboxExecutor
    ) -> None:
        self.input_gate = input_gate
        self.barrier_handler = barrier_handler
        self._executor = executor
        self._await_priority_event()

    def poll_next(self) -> tuple[InputChannelInfo, ChannelElement] | None:
        """The next element and its channel, or None; the handler has then processed the event."""
        polled = self.input_gate.poll_next()
        if polled is None or isinstance(polled[1], Record):
            return polled  # fast path: most elements are records
        if isinstance(polled[1], ChannelEvent):
            self._handle(polled[0], polled[1])
        return polled

    def _handle(self, channel: InputChannelInfo, event: ChannelEvent) -> None:
        match event:
            case CheckpointBarrier():
                self.barrier_handler.process_barrier(event, channel)
            case EventAnnouncement():
                self.barrier_handler.process_barrier_announcement(
                    event.barrier, event.sequence_number, channel
                )
            case CancelCheckpointMarker():
                self.barrier_handler.process_cancellation_barrier(event, channel)
            case EndOfPartition():
                self.barrier_handler.process_end_of_partition(channel)
            case EndOfData():
                pass  # the gate has recorded it; barriers are not affected

    def _await_priority_event(self) -> None:
        self.input_gate.is_priority_event_available.then(self._send_for_priority_events)

    def _send_for_priority_events(self) -> None:
        with suppress(MailboxClosed):  # the task is ending and takes no snapshot
            self._executor.execute(self._process_priority_events, "process priority events")

    def _process_priority_events(self) -> None:
        """Process all priority events; some may have been read before this mail ran."""
        while self.input_gate.is_priority_event_available:
            self.poll_next()
        self._await_priority_event()

    @property
    def is_available(self) -> Availability:
        return self.input_gate.is_available

    @property
    def is_finished(self) -> bool:
        return self.input_gate.is_finished

    @property
    def end_of_data(self) -> StopMode | None:
        return self.input_gate.end_of_data

    def close(self) -> None:
        self.barrier_handler.close()


class DataOutput(Protocol):
    """The head of the operator chain, or one of its two inputs."""

    def emit(self, element: OperatorInput, /) -> None: ...


class StreamTaskNetworkInput:
    """The input of a task that reads channels: one gate, with a watermark valve. Mutable; used on the task's thread.

    Answers to Flink's `StreamTaskNetworkInput`. Invariant: each call reads at most one element, and the returned
    status tells the task what to do next (M41); watermarks and their status pass only through the valve.
    """

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
        """Which of the operator's inputs this is, from 0."""

    def emit_next(self, output: DataOutput) -> DataInputStatus:
        """Read one element and pass it to `output`, unless it is an event or the valve holds it back."""
        polled = self._gate.poll_next()
        if polled is None:
            return (
                DataInputStatus.END_OF_INPUT if self._gate.is_finished else DataInputStatus.NOTHING_AVAILABLE
            )
        channel, element = polled
        match element:
            case Record() | LatencyMarker() | RecordAttributes():
                output.emit(element)
            case Watermark():
                self._valve.input_watermark(element, channel.input_channel_idx, output)
            case WatermarkStatus():
                self._valve.input_watermark_status(element, channel.input_channel_idx, output)
            case _:
                return self._status_after(element)
        return DataInputStatus.MORE_AVAILABLE

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
        return self._gate.is_available

    @property
    def current_watermark(self) -> int | None:
        """The last watermark that was emitted, or None."""
        return self._valve.last_output_watermark

    def close(self) -> None:
        self._gate.close()
