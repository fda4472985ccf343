"""Inputs whose barriers may overtake what waits in front of them: elements arrive when due, and wait to be read.

Answers to `RemoteInputChannel`s with unaligned checkpoints (C26 to C28). Invariants: elements are read in the order of
their positions; the barriers of a checkpoint arrive in all inputs at once, and nothing behind them until it is taken; a
checkpoint holds what had arrived and was not read, and its position is that of the first element not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from harness.sut.gated_inputs import GatedInputs
from harness.sut.positions import ChannelState
from harness.sut.rescaling import KeyedParts
from reference_impl.checkpoint_events import (
    AlignmentType,
    ChannelEvent,
    CheckpointBarrier,
    CheckpointException,
    CheckpointMetaData,
    CheckpointMetrics,
    CheckpointOptions,
)
from reference_impl.checkpoints.barrier_states import CheckpointBarrierHandler
from reference_impl.checkpoints.channels import InputChannel, InputChannelInfo
from reference_impl.checkpoints.input_gate import CheckpointedInputGate, InputGate
from reference_impl.elements import (
    EndOfInput,
    LatencyMarker,
    OperatorInput,
    QueueElement,
    Record,
    Watermark,
)
from reference_impl.errors import MailboxClosed
from reference_impl.mailbox.availability import AVAILABLE, Availability, DataInputStatus
from reference_impl.task.input_processor import Source


class UnalignedInputs(GatedInputs):
    """The inputs of one attempt, with an alignment timeout. Mutable."""

    _raw_gate: InputGate
    _handler: CheckpointBarrierHandler

    def __init__(
        self,
        source: Source,
        *,
        position: int,
        timeout_ms: int,
        recovered: ChannelState | None,
        **others: Any,
    ) -> None:
        """`recovered`: what the restored checkpoint holds of the inputs."""
        super().__init__(source, position=position, **others)
        self._options = CheckpointOptions(
            alignment=AlignmentType.ALIGNED if timeout_ms else AlignmentType.UNALIGNED,
            aligned_timeout_ms=timeout_ms or None,
        )
        self._captured: list[tuple[int, QueueElement | LatencyMarker]] = []
        self._arrived = position if recovered is None else recovered.until
        self._awaited: int | None = None
        """The checkpoint whose barriers have arrived and that is not taken yet."""
        for number, channel in enumerate(self._channels):
            if recovered is not None:
                channel.recover(element for of, element in recovered.elements if of == number)

    def _build_gate(self, parts: KeyedParts) -> CheckpointedInputGate:
        self._channels = [
            parts.channel(InputChannelInfo(0, number), writer=self) for number in range(self._inputs.count)
        ]
        gate = self._raw_gate = InputGate(self._channels, choose=self._first_in_source)
        self._handler = parts.alternating(task=self, inputs=[gate], timers=self._timers, checkpoints=self)
        return CheckpointedInputGate(gate, self._handler, self._executor)

    @property
    def is_available(self) -> Availability:
        """Whether an element has arrived, or all have been read."""
        if not self._has_begun or self._position == len(self._inputs):
            return AVAILABLE
        return self._raw_gate.is_available

    def process_input(self) -> DataInputStatus:
        """Passes what is next of the elements that have arrived into the head."""
        if not self._has_begun:
            self._has_begun = True
            self._arrive()
        if self._position == len(self._inputs):
            return self._end()
        while self._is_event_next():
            self._gate.emit_next(self._read)
        readable = self._readable()
        if not readable:
            return DataInputStatus.NOTHING_AVAILABLE
        self._read_next(readable)
        return DataInputStatus.MORE_AVAILABLE

    def _read_next(self, readable: Sequence[InputChannel]) -> None:
        """Reads what stands at the first position that any input holds: a record, a marker, or a watermark of each.

        Timers that are due before it run first, as mail.
        """
        _, position = self._place(self._first_in_source(readable))
        if self._clock.advance(self._inputs.clock_ms(position)):
            return
        heads = [channel for channel in readable if self._place(channel) == (True, position)]
        head = heads[0].head
        if not isinstance(head, LatencyMarker):
            self._position = position + 1
        match head:
            case Record() | LatencyMarker():
                self._tell_reader(head)
                self._feed(self._left(heads), into=self._doors[heads[0].info.input_channel_idx :][:1])
            case Watermark(timestamp=mark):
                self._tell_reader(Watermark(timestamp=self._inputs.combined(mark), position=position))
                risen = [replace(element, position=position) for element in self._left(heads)]
                self._feed(risen, into=self._doors)

    def _left(self, heads: Sequence[InputChannel]) -> list[OperatorInput]:
        """Reads an element of each of `heads`; returns what leaves the gate and the valve."""
        for _ in heads:
            self._gate.emit_next(self._read)
        return self._read.taken()

    def cut_at(self, checkpoint: int) -> int:
        """The first position that was not read; what has arrived from there on is in `channel_state`."""
        del checkpoint
        return self._position

    def channel_state(self) -> ChannelState:
        """What the checkpoint that is being taken holds of the inputs."""
        captured, self._captured = self._captured, []
        return ChannelState(until=self._arrived, elements=tuple(captured))

    def _arrive(self) -> None:
        """Puts what is due into the channels, up to the next barriers; goes on when more is due."""
        while self._awaited is None and self._arrived < len(self._inputs):
            position = self._arrived
            if not self._due.has_come(self._due_ms(position)):
                self._due.is_available.then(self._arrive)
                return
            element = self._source.read(position)
            assert not isinstance(element, EndOfInput), "the source ends behind its last position"
            self._arrived = position + 1
            for number in self._inputs.over(position):
                if isinstance(element, Record) and self._marks_latency(position):
                    self._channels[number].put(LatencyMarker(id=position))
                self._channels[number].put(self._on_input(number, position, element))
            barrier = self._source.barrier_before(self._arrived)
            if barrier is not None:
                self._awaited = barrier.checkpoint_id
                self._stood_at[barrier.checkpoint_id] = self._arrived
                for channel in self._channels:
                    channel.put(
                        CheckpointBarrier(
                            checkpoint_id=barrier.checkpoint_id,
                            timestamp=self._timers.now_ms(),
                            options=self._options,
                        )
                    )

    def _on_input(self, number: int, position: int, element: object) -> OperatorInput:
        if isinstance(element, Watermark):
            mark = self._inputs.timestamp(number, element.timestamp, position=position)
            return Watermark(timestamp=mark, position=position)
        assert isinstance(element, Record), f"a workload of lookups holds no {element!r}"
        return element

    # --------------------------------------------------------------------------------- the order of reading

    def _readable(self) -> list[InputChannel]:
        return [channel for channel in self._channels if channel.is_readable]

    def _is_event_next(self) -> bool:
        readable = self._readable()
        return bool(readable) and isinstance(self._first_in_source(readable).head, ChannelEvent)

    def _first_in_source(self, channels: Sequence[InputChannel]) -> InputChannel:
        return min(channels, key=self._place)

    def _place(self, channel: InputChannel) -> tuple[bool, int]:
        """Where the next element of a channel stands; a priority event comes before all elements."""
        head = channel.head
        if isinstance(head, CheckpointBarrier) and not channel.has_priority_event:
            return True, self._stood_at[head.checkpoint_id]
        if isinstance(head, LatencyMarker):
            return True, head.id
        if isinstance(head, Record | Watermark) and head.position is not None:
            return True, head.position
        return False, 0

    # ------------------------------------------------------------------------ for the handler of the barriers

    def trigger_checkpoint_on_barrier(
        self, metadata: CheckpointMetaData, options: CheckpointOptions, metrics: CheckpointMetrics
    ) -> None:
        """Takes the checkpoint; more may arrive once its last barrier has been read, too."""
        self._task.trigger_checkpoint_on_barrier(metadata, options, metrics)
        last = self._handler.all_barriers_received_future(metadata.checkpoint_id)

        def arrive_again() -> None:
            self._awaited = None
            self._arrive()

        def send_on(_: Future[None]) -> None:
            with suppress(MailboxClosed):  # the task is ending
                self._executor.execute(arrive_again, "let elements arrive behind the barriers")

        last.add_done_callback(send_on)

    def abort_checkpoint_on_barrier(self, checkpoint_id: int, exception: CheckpointException) -> None:
        """Never called: nothing arrives behind the barriers of a checkpoint that is not taken."""
        self._task.abort_checkpoint_on_barrier(checkpoint_id, exception)

    def init_input_checkpoint(self, checkpoint_id: int, options: CheckpointOptions) -> None:
        """Begins with nothing captured."""
        del checkpoint_id, options
        self._captured = []

    def add_input_data(
        self, checkpoint_id: int, info: InputChannelInfo, start: int, elements: list[OperatorInput]
    ) -> None:
        """Keeps what a channel held in front of its barrier."""
        del checkpoint_id, start
        for element in elements:
            assert isinstance(element, Record | Watermark | LatencyMarker), f"a channel held {element!r}"
            self._captured.append((info.input_channel_idx, element))
