"""Gated inputs: splits a source over the inputs of a task, read in source order and timed by the source's clock.

Answers to Flink's `TestProcessingTimeService`. Timers and the time to live of state count by it, so an attempt that
reads the same positions again sees the same times, whatever the machine's load: what they lead to can be expected as
values. Invariants: the clock never goes back within an attempt; a timer runs as mail, before the first element that is
due at its time or later.

Answers to a `StreamTwoInputProcessor` over a `CheckpointedInputGate` with its barrier handler and
`StatusWatermarkValve`. Every input has its own barriers and watermarks. Invariants: the element with the lowest
position is taken next (after a wait, if it is not due), so every attempt merges the inputs in the same order; a barrier
at the head of an input is taken at once and blocks that input until the other barriers have arrived; a checkpoint's
source position is the position of its barriers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from msgspec.structs import replace

from harness.scenario.workloads.lookups import Inputs
from harness.sut.phases import Phases
from harness.sut.rescaling import KeyedParts
from reference_impl.checkpoint_events import CheckpointBarrier, EndOfData, EndOfPartition, StopMode
from reference_impl.checkpoints.barrier_states import CheckpointableTask
from reference_impl.checkpoints.channels import ChannelElement, InputChannel, InputChannelInfo
from reference_impl.checkpoints.input_gate import CheckpointedInputGate, InputGate, StreamTaskNetworkInput
from reference_impl.elements import LatencyMarker, OperatorInput, Record, Watermark, WatermarkStatus
from reference_impl.mailbox.availability import Availability, DataInputStatus
from reference_impl.mailbox.loops import NS_PER_MS
from reference_impl.mailbox.mailbox import MailboxExecutor
from reference_impl.mailbox.timers import Timers
from reference_impl.task.input_processor import DueTime, Reader, Source
from reference_impl.task.operator_chain import OperatorChain
from reference_impl.task.stream_operator import Emit


class SourceClock:
    """The source's clock in one attempt. Mutable: `start_at`, then `advance`."""

    def __init__(self) -> None:
        self._now_ms = 0
        self._timers: list[_SourceTimers] = []

    def now_ms(self) -> int:
        return self._now_ms

    def timers(self, loop: asyncio.AbstractEventLoop, executor: MailboxExecutor) -> Timers:
        """Timers on this clock, whose mail goes to `executor`."""
        made = _SourceTimers(loop, executor, clock=self)
        self._timers.append(made)
        return made

    def start_at(self, now_ms: int) -> None:
        """Sets the clock before the attempt reads its first element."""
        self._now_ms = now_ms

    def advance(self, now_ms: int) -> bool:
        """Sets the clock and puts the mail of timers that are due; whether there are any, which must run first."""
        self._now_ms = max(now_ms, self._now_ms)
        due = [timers for timers in self._timers if timers.has_due()]
        for timers in due:
            timers.fire_due()
        return bool(due)


class _SourceTimers(Timers):
    """Timers that wait for the clock instead of the loop. Mutable."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, executor: MailboxExecutor, *, clock: SourceClock
    ) -> None:
        super().__init__(loop, executor)
        self.now_ns = lambda: clock.now_ms() * NS_PER_MS

    def wake_at(self, instant_ns: int) -> None:
        """Does nothing: the clock moves only when it is advanced."""

    def has_due(self) -> bool:
        due_ms = self.next_due_ms()
        return due_ms is not None and due_ms <= self.now_ms()

    def fire_due(self) -> None:
        self._fire_due()


_IDLE, _ACTIVE = WatermarkStatus(idle=True), WatermarkStatus(idle=False)


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
        clock: SourceClock,
        output: HeldOutput,
        latency_markers: int,
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
        self._clock = clock
        clock.start_at(inputs.clock_ms(position - 1))
        self._output = output
        self._marker_every = latency_markers
        self._task = task
        self._timers = timers
        self._executor = executor
        self._channels: list[InputChannel] = []
        self._gate = StreamTaskNetworkInput(self._build_gate(parts), valve=parts.valve)
        self._read = _Read()
        self._position = position
        self._cut: _PendingCheckpoint | None = None
        """The checkpoint whose barriers are next, or came last."""
        self._behind = position
        """Barriers were searched up to this position; a restored checkpoint is not taken again."""
        self._stood_at: dict[int, int] = {}
        """The barrier position of each checkpoint."""
        self._later: tuple[Callable[[], None], int] | None = None
        """The end of a checkpoint that waits for so many elements."""
        self._has_begun = False
        self._has_ended = False

    def _build_gate(self, parts: KeyedParts) -> CheckpointedInputGate:
        """Sets `_channels`; returns their gate with its barrier handler. Called once, by the constructor."""
        self._channels = [InputChannel(InputChannelInfo(0, number)) for number in range(self._inputs.count)]
        gate = InputGate(self._channels)
        handler = parts.barrier_handler(task=self._task, inputs=[gate], timers=self._timers)
        return CheckpointedInputGate(gate, handler, self._executor)

    @property
    def is_available(self) -> Availability:
        """Whether the next element is due."""
        return self._due.is_available

    def process_input(self) -> DataInputStatus:
        """Passes one element through the gate into the head, then the barriers that are now at the head of an input.

        Timers that are due before the element run first, as mail.
        """
        if not self._has_begun:
            self._has_begun = True
            self._restore_statuses()
            self._bring_barriers()
        position = self._position
        if not self._due.has_come(self._due_ms(position)):
            return DataInputStatus.NOTHING_AVAILABLE
        if position >= len(self._inputs):
            return self._end()
        if self._clock.advance(self._inputs.clock_ms(position)):
            return DataInputStatus.MORE_AVAILABLE
        self._take(position)
        self._bring_barriers()
        while self._later is not None:
            self._run_ahead()
            self._bring_barriers()
        return DataInputStatus.MORE_AVAILABLE

    @property
    def position(self) -> int:
        """The position that is read next."""
        return self._position

    @property
    def has_ended(self) -> bool:
        """Whether the source has no more elements."""
        return self._has_ended

    def finish_later(self, finish: Callable[[], None], *, ahead: int) -> None:
        """Calls `finish`, which ends a checkpoint, once the head has taken `ahead` elements behind its barriers."""
        self._later = (finish, ahead)

    def _run_ahead(self) -> None:
        """Takes elements whose effects behind the head are held back until the checkpoint has ended.

        It stops before the next barrier, and before timers, whose mail would have to run first.
        """
        assert self._later is not None, "a checkpoint waits for it"
        (finish, ahead), self._later = self._later, None
        begin = self._position
        self._output.hold()
        for position in range(begin, min(begin + ahead, len(self._inputs))):
            is_next_cut = position > begin and self._source.barrier_before(position) is not None
            if is_next_cut or self._clock.advance(self._inputs.clock_ms(position)):
                break
            self._take(position)
        finish()
        self._output.release()

    def _take(self, position: int) -> None:
        self._position = position + 1
        match self._source.read(position):
            case Record() as record:
                (number,) = self._inputs.over(position)
                if self._marks_latency(position):
                    self._pass(LatencyMarker(id=position), number=number)
                self._pass(record, number=number)
            case Watermark(timestamp=mark):
                self._tell_reader(Watermark(timestamp=self._inputs.combined(mark), position=position))
                self._feed(self._risen(position, mark), into=self._doors)
            case other:
                raise TypeError(f"a workload of lookups holds no {other!r} before its end")

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

    def _marks_latency(self, position: int) -> bool:
        return self._marker_every > 0 and position % self._marker_every == 0

    def _pass(self, element: Record | LatencyMarker, *, number: int) -> None:
        """Passes a record or latency marker through input `number` into the head."""
        self._tell_reader(element)
        read = self._carried(number, element)
        assert read, "an input is not blocked that holds what comes next"
        self._feed(read, into=self._doors[number : number + 1])

    def _carried(self, number: int, element: ChannelElement) -> list[OperatorInput]:
        """Puts `element` into input `number`; returns the elements that leave the gate and the valve."""
        self._channels[number].put(element)
        self._gate.emit_next(self._read)
        return self._read.taken()

    def _risen(self, position: int, mark: int) -> list[OperatorInput]:
        """Puts watermark and statuses into the inputs; returns what leaves the valve, with its position added."""
        risen: list[OperatorInput] = []
        for number, said in self._said(position, mark):
            risen += self._carried(number, said)
        return [replace(element, position=position) for element in risen]

    def _said(self, position: int, mark: int) -> Iterator[tuple[int, Watermark | WatermarkStatus]]:
        """What each input brings at a watermark of the source.

        Input 1 falls idle after it has brought the watermark, and so does input 0, which has not: the highest
        watermark of inputs that are all idle must leave (W3). Input 0 is active again at once, and behind until its
        next watermark (W2). What an input that wakes up says may be behind for longer.
        """
        was, will = self._inputs.idle(position - 1), self._inputs.idle(position)
        brings = {
            number: Watermark(
                timestamp=self._inputs.timestamp(number, mark, position=position), position=position
            )
            for number in self._inputs.over(position)
        }
        if self._inputs.all_fall_idle(position):
            yield from ((1, brings[1]), (1, _IDLE), (0, _IDLE), (0, _ACTIVE))
            return
        for number, said in brings.items():
            if number == was and number != will:
                yield number, _ACTIVE
            if number != will:
                yield number, said
            elif number != was:
                yield number, _IDLE

    def _restore_statuses(self) -> None:
        """An input that was idle or behind is so again: no checkpoint holds statuses and watermarks of inputs.

        What leaves the valve has left before the checkpoint.
        """
        read = self._position - 1
        idle, late, left = self._inputs.idle(read), self._inputs.late(read), self._inputs.left(read)
        behind = idle if late is None else late.number
        if behind is None or left is None:
            return
        self._carried(behind, _IDLE)
        self._carried(1 - behind, Watermark(timestamp=left))
        if late is not None:
            self._carried(behind, _ACTIVE)

    def _feed(self, elements: Iterable[OperatorInput], *, into: Sequence[Emit]) -> None:
        """Passes a record to the head's input of the same number, combined watermark and status to all of them."""
        for element in elements:
            for door in into:
                door(element)

    def _tell_reader(self, element: OperatorInput) -> None:
        """Tell the reader what the inputs should combine to: a watermark that gate or head loses is missing (V6)."""
        self._output.do(partial(self._reader.takes, element))

    def _end(self) -> DataInputStatus:
        """Ends the data, and in the next call the channels."""
        if self._has_ended:
            return self._tell_all(EndOfPartition())
        self._has_ended = True
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
    """The gate's output. Mutable: holds elements until they are taken."""

    def __init__(self) -> None:
        self._elements: list[OperatorInput] = []

    def emit(self, element: OperatorInput, /) -> None:
        self._elements.append(element)

    def taken(self) -> list[OperatorInput]:
        """The elements that have left since the last call."""
        elements, self._elements = self._elements, []
        return elements


class HeldOutput:
    """What the head passes on: at once, or held until the checkpoint in progress is handed over. Mutable."""

    def __init__(self) -> None:
        self._held: list[Callable[[], None]] | None = None

    def do(self, action: Callable[[], None]) -> None:
        """Does `action` now, or with `release`."""
        if self._held is None:
            action()
        else:
            self._held.append(action)

    def hold(self) -> None:
        self._held = []

    def release(self) -> None:
        """Does what is held, in order."""
        held, self._held = self._held, None
        for action in held or ():
            action()
