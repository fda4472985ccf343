"""Gated inputs: splits a source over the inputs of a task and reads them through an input gate, in source order.

Answers to a `StreamTwoInputProcessor` over a `CheckpointedInputGate` with its barrier handler and
`StatusWatermarkValve`. Every input has its own barriers and watermarks. Invariants: the element with the lowest
position is taken next (after a wait, if it is not due), so every attempt merges the inputs in the same order; a barrier
at the head of an input is taken at once and blocks that input until the other barriers have arrived; a checkpoint's
source position is the position of its barriers.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.sut.keyed_parts import KeyedParts
from harness.sut.phases import Phases
from harness.workloads.lookups import Inputs
from reference_impl.checkpoint_events import CheckpointBarrier, EndOfData, EndOfPartition, StopMode
from reference_impl.checkpoints.barrier_handler import CheckpointableTask
from reference_impl.checkpoints.channels import ChannelElement, InputChannel, InputChannelInfo
from reference_impl.checkpoints.input_gate import CheckpointedInputGate, InputGate, StreamTaskNetworkInput
from reference_impl.elements import EndOfInput, OperatorInput, Record, Watermark
from reference_impl.mailbox.availability import Availability, DataInputStatus
from reference_impl.mailbox.mailbox import MailboxExecutor
from reference_impl.mailbox.timers import Timers
from reference_impl.task.operator_chain import OperatorChain
from reference_impl.task.positioned_input import DueTime, Reader, Source
from reference_impl.task.stream_operator import Emit

__all__ = ["GatedInputs"]


class GatedInputs:
    """The inputs of one attempt; a `StreamInputProcessor`. Mutable."""

    def __init__(
        self,
        source: Source,
        *,
        inputs: Inputs,
        parts: KeyedParts,
        phases: Phases,
        reader: Reader,
        task: CheckpointableTask,
        chain: OperatorChain,
        position: int,
        due: DueTime,
        timers: Timers,
        executor: MailboxExecutor,
    ) -> None:
        self._source = source
        self._inputs = inputs
        self._phases = phases
        self._reader = reader
        self._chain = chain
        self._doors = chain.doors
        """The inputs of the head operator; two, even if the task has only one input."""
        self._due = due
        self._channels: list[InputChannel] = [
            InputChannel(InputChannelInfo(0, number)) for number in range(inputs.count)
        ]
        gate = InputGate(self._channels)
        handler = parts.barrier_handler(task=task, inputs=[gate], timers=timers)
        self._gate = StreamTaskNetworkInput(
            CheckpointedInputGate(gate, handler, executor),
            valve=parts.valve,
        )
        self._read = _Read()
        self._position = position
        self._cut: _PendingCheckpoint | None = None
        """The checkpoint whose barriers are next, or came last."""
        self._behind = position
        """Barriers were searched up to this position; a restored checkpoint is not taken again."""
        self._stood_at: dict[int, int] = {}
        """The barrier position of each checkpoint."""
        self._has_begun = False
        self._has_ended = False

    @property
    def is_available(self) -> Availability:
        """Whether the next element is due."""
        return self._due.is_available

    def process_input(self) -> DataInputStatus:
        """Passes one element through the gate into the head, then the barriers that are now at the head of an input."""
        if not self._has_begun:
            self._has_begun = True
            self._bring_barriers()
        position = self._position
        if not self._due.has_come(self._due_ms(position)):
            return DataInputStatus.NOTHING_AVAILABLE
        match self._source.read(position):
            case EndOfInput():
                return self._end()
            case Record() as record:
                (number,) = self._inputs.over(position)
                self._feed(self._carried(number, record), into=self._doors[number : number + 1])
            case Watermark(timestamp=mark):
                self._feed(self._risen(position, mark), into=self._doors)
            case other:
                raise TypeError(f"a workload of lookups holds no {other!r}")
        self._bring_barriers()
        return DataInputStatus.MORE_AVAILABLE

    def advance_to_end_of_event_time(self) -> None:
        """Does nothing: the workload has its own last watermark."""

    def stop(self, mode: StopMode) -> bool:
        """Does nothing: stop-with-savepoint is not used."""
        del mode
        return False

    def cut_at(self, checkpoint: int) -> int:
        """The barrier position of `checkpoint`; for the last one, which has no barriers, the end."""
        return self._stood_at.get(checkpoint, self._position)

    def _due_ms(self, position: int) -> int:
        """When the element at `position` is due on all its inputs."""
        over = self._inputs.over(position) if position < len(self._inputs) else ()
        return self._source.due_ms(position) + max(map(self._inputs.lag_ms, over), default=0)

    def _carried(self, number: int, element: ChannelElement) -> OperatorInput | None:
        """Puts `element` into input `number`; returns the element that leaves the gate and the valve."""
        self._channels[number].put(element)
        self._gate.emit_next(self._read)
        return self._read.taken()

    def _risen(self, position: int, mark: int) -> Watermark:
        """Puts the watermark into every input; returns the combined one from the valve, with its position added."""
        risen: OperatorInput | None = None
        for number in self._inputs.over(position):
            said = Watermark(timestamp=self._inputs.timestamp(number, mark), position=position)
            risen = self._carried(number, said) or risen
        assert isinstance(risen, Watermark), "marks rise on every input, so the least of them does"
        return Watermark(timestamp=risen.timestamp, position=position)

    def _feed(self, element: OperatorInput | None, *, into: Sequence[Emit]) -> None:
        """Passes a record to the head's input of the same number, a combined watermark to all of them."""
        assert element is not None, "an input is not blocked that holds what comes next"
        self._reader.takes(element)
        self._position += 1
        for door in into:
            door(element)

    def _end(self) -> DataInputStatus:
        """Ends the data, and in the next call the channels."""
        if self._has_ended:
            return self._tell_all(EndOfPartition())
        self._has_ended = True
        self._reader.source_exhausted()
        for number in range(len(self._doors)):
            self._chain.end_head_input(number + 1)
        return self._tell_all(EndOfData(mode=StopMode.DRAIN))

    def _tell_all(self, event: EndOfData | EndOfPartition) -> DataInputStatus:
        said = DataInputStatus.MORE_AVAILABLE
        for channel in self._channels:
            channel.put(event)
            said = self._gate.emit_next(self._read)
        return said

    def _bring_barriers(self) -> None:
        """Passes the barriers that are at the head of their inputs; the last one of a checkpoint triggers it."""
        position = self._position
        cut = self._next_cut(position)
        if cut is None:
            return
        for number in list(cut.missing):
            if self._inputs.is_read(number, begin=position, end=cut.position):
                cut.missing.remove(number)
                self._carried(number, CheckpointBarrier(checkpoint_id=cut.number))
                if cut.missing:
                    self._phases.reach("align")

    def _next_cut(self, position: int) -> _PendingCheckpoint | None:
        if self._cut is not None and (self._cut.missing or position < self._cut.position):
            return self._cut
        for stands in range(self._behind + 1, len(self._inputs)):
            self._behind = stands
            barrier = self._source.barrier_before(stands)
            if barrier is not None:
                self._cut = _PendingCheckpoint(barrier.checkpoint_id, stands, self._inputs.count)
                self._stood_at[barrier.checkpoint_id] = stands
                return self._cut
        self._cut = None
        return None


class _PendingCheckpoint:
    """A checkpoint with barriers still to come. Mutable."""

    def __init__(self, number: int, position: int, inputs: int) -> None:
        self.number = number
        self.position = position
        self.missing = list(range(inputs))
        """The inputs whose barrier has not arrived."""


class _Read:
    """The gate's output. Mutable: holds the last element until it is taken."""

    def __init__(self) -> None:
        self._element: OperatorInput | None = None

    def emit(self, element: OperatorInput, /) -> None:
        self._element = element

    def taken(self) -> OperatorInput | None:
        """The element that has left since the last call; None: none has."""
        element, self._element = self._element, None
        return element
