"""Merged inputs: a source split over the inputs of a task, and read through its gate, in the order of its positions.

Answers to a `CheckpointedInputGate` with its barrier handler and `StatusWatermarkValve`. Barriers and watermarks stand
in each input. Invariant: of the inputs' heads the one with the lowest position is taken, waited for if it is not
due, so equal sources are merged equally in every attempt; a barrier is taken as soon as it is a head, so its input is
blocked until the others have come to theirs; and what a checkpoint says of the source is where its barriers stand.
"""

from __future__ import annotations

from typing import Any

from harness.sut.keyed_task.parts import KeyedParts
from harness.sut.phases import Phases
from harness.workloads.inputs import Inputs
from reference_impl.barriers.checkpointed_input_gate import CheckpointedInputGate
from reference_impl.barriers.input_channel import InputChannel
from reference_impl.barriers.input_channel_info import InputChannelInfo
from reference_impl.barriers.input_gate import InputGate
from reference_impl.checkpoint_failure import CheckpointException
from reference_impl.checkpoint_metadata import CheckpointMetaData, CheckpointMetrics
from reference_impl.checkpoint_options import CheckpointOptions
from reference_impl.elements import (
    EndOfInput,
    Record,
    StreamElement,
    Watermark,
    WatermarkStatus,
)
from reference_impl.events import CheckpointBarrier, EndOfPartition
from reference_impl.mailbox_executor import MailboxExecutor
from reference_impl.source_task import Source
from reference_impl.timers import Timers

__all__ = ["MergedInputs"]


class MergedInputs:
    """One attempt's; a `reference_impl.source_task.Source` of what `source` holds. Mutable."""

    def __init__(
        self,
        source: Source,
        *,
        inputs: Inputs,
        parts: KeyedParts,
        phases: Phases,
        timers: Timers,
        executor: MailboxExecutor,
    ) -> None:
        self._source = source
        self._inputs = inputs
        self._phases = phases
        self._gate = _Gate(inputs.count, parts=parts, timers=timers, executor=executor)
        self._valve = parts.valve(inputs.count)
        self._risen = _Risen()
        self._cut: _Cut | None = None
        """The checkpoint whose barriers come next, or came last."""
        self._behind = -1
        """Up to this position barriers were looked for."""

    # ----------------------------------------------------------------------------------------- a `Source`

    def read(self, position: int) -> StreamElement:
        """What stands at `position`, once it has come through the gate."""
        match self._source.read(position):
            case Watermark(timestamp=mark):
                for number in self._inputs.over(position):
                    said = Watermark(timestamp=self._inputs.timestamp(number, mark), position=position)
                    self._valve.input_watermark(self._gate.carry(number, said), number, self._risen)
                return Watermark(timestamp=self._risen.taken(), position=position)
            case Record() as record:
                (number,) = self._inputs.over(position)
                carried: StreamElement = self._gate.carry(number, record)
                return carried
            case EndOfInput() as end:
                self._gate.end()
                return end
            case other:
                raise TypeError(f"a workload of lookups holds no {other!r}")

    def barrier_before(self, position: int) -> CheckpointBarrier | None:
        """The barrier of a checkpoint that begins now, for the gate has taken the last one of it."""
        if self._behind < 0:
            self._behind = position  # a restored one is not cut again
        cut = self._next_cut(position)
        if cut is None:
            return None
        for number in list(cut.missing):
            if self._inputs.is_read(number, begin=position, end=cut.position):
                cut.missing.remove(number)
                self._gate.bring(number, CheckpointBarrier(checkpoint_id=cut.number))
                if cut.missing:
                    self._phases.reach("align")
        return self._gate.triggered()

    def due_ms(self, position: int) -> int:
        """Once it is due on each input over which it comes."""
        due_ms = self._source.due_ms(position)
        return due_ms + max((self._inputs.lag_ms(number) for number in self._over(position)), default=0)

    def cut_at(self, checkpoint: int) -> int | None:
        """Where the barriers of `checkpoint` stand; None: it has none."""
        return self._gate.stood_at.get(checkpoint)

    # -------------------------------------------------------------------------------------------- barriers

    def _over(self, position: int) -> tuple[int, ...]:
        return self._inputs.over(position) if position < len(self._inputs) else ()

    def _next_cut(self, position: int) -> _Cut | None:
        if self._cut is not None and (self._cut.missing or position < self._cut.position):
            return self._cut
        for stands in range(self._behind + 1, len(self._inputs)):
            self._behind = stands
            barrier = self._source.barrier_before(stands)
            if barrier is not None:
                self._cut = _Cut(barrier.checkpoint_id, stands, self._inputs.count)
                self._gate.stood_at[barrier.checkpoint_id] = stands
                return self._cut
        self._cut = None
        return None


class _Cut:
    """A checkpoint whose barriers are yet to come. Mutable."""

    def __init__(self, number: int, position: int, inputs: int) -> None:
        self.number = number
        self.position = position
        self.missing = list(range(inputs))
        """The inputs that have not brought theirs."""


class _Gate:
    """The task's gate with its barrier handler, fed and read one element at a time. Mutable; a `CheckpointableTask`."""

    def __init__(self, inputs: int, *, parts: KeyedParts, timers: Timers, executor: MailboxExecutor) -> None:
        self._channels = [InputChannel(InputChannelInfo(0, number)) for number in range(inputs)]
        gate = InputGate(self._channels)
        handler = parts.barrier_handler(task=self, inputs=[gate], timers=timers)
        self._gate = CheckpointedInputGate(gate, handler, executor)
        self._triggered: list[int] = []
        self.stood_at: dict[int, int] = {}
        """By checkpoint: where its barriers stand."""

    def carry(self, number: int, element: Any) -> Any:
        """`element`, once it has come over input `number`."""
        self._channels[number].put(element)
        polled = self._gate.poll_next()
        assert polled is not None, f"input {number} is not blocked, for it holds what comes next"
        return polled[1]

    def bring(self, number: int, barrier: CheckpointBarrier) -> None:
        """A barrier: the gate keeps it, and its handler deals with it."""
        self._channels[number].put(barrier)
        polled = self._gate.poll_next()
        assert polled is None or isinstance(polled[1], CheckpointBarrier), "nothing else has come"

    def end(self) -> None:
        """Nothing follows on any input."""
        for channel in self._channels:
            channel.put(EndOfPartition())
            self._gate.poll_next()

    def triggered(self) -> CheckpointBarrier | None:
        """The checkpoint that the handler has begun since this was asked last."""
        return CheckpointBarrier(checkpoint_id=self._triggered.pop()) if self._triggered else None

    def trigger_checkpoint_on_barrier(
        self, metadata: CheckpointMetaData, options: CheckpointOptions, metrics: CheckpointMetrics, /
    ) -> None:
        """The task takes it before it reads on."""
        del options, metrics
        self._triggered.append(metadata.checkpoint_id)

    def abort_checkpoint_on_barrier(self, checkpoint_id: int, exception: CheckpointException, /) -> None:
        """Barriers come in the order of their numbers, over every input: nothing gives one up."""
        raise AssertionError(f"checkpoint {checkpoint_id} was given up: {exception}") from exception


class _Risen:
    """Where a valve puts the watermark that leaves it. Mutable."""

    def __init__(self) -> None:
        self._watermark: int | None = None

    def emit(self, element: Watermark | WatermarkStatus, /) -> None:
        """It has risen; no input of a workload falls idle."""
        assert isinstance(element, Watermark), f"the inputs send no {element!r}"
        self._watermark = element.timestamp

    def taken(self) -> int:
        """What it has risen to since this was asked last."""
        risen, self._watermark = self._watermark, None
        assert risen is not None, "marks rise on every input, so the least of them does"
        return risen
