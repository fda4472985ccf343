"""The input of a task that reads channels: the gate, the gate with a barrier handler, and the task's input on top.

Answers to Flink's `SingleInputGate`, `CheckpointedInputGate` and `StreamTaskNetworkInput`. Invariant: a gate delivers
priority events first, and every event passes the barrier handler exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
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
from reference_impl.checkpoints.barrier_handler import CheckpointBarrierHandler
from reference_impl.checkpoints.channels import ChannelElement, InputChannel, InputChannelInfo
from reference_impl.checkpoints.watermark_valve import StatusWatermarkValve
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
