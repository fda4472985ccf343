"""Moves elements from the inputs of a task, or from a source read by position, into the head of its chain.

Answers to Flink's `StreamInputProcessor`, `StreamOneInputProcessor`, `StreamMultipleInputProcessor` and
`StreamTaskInput`. Invariant: an input is read only while its last status allows more; several inputs are read in turn.
The head gets the end of each input once, after the last possible watermark (M44).

Answers to Flink's `StreamTaskSourceInput` and, for checkpoints, to `ExternallyInducedSource`. Invariant: an element is
not read before it is due; a checkpoint is taken in the same action that read the element before its barrier, so a full
queue does not delay it (A33).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from reference_impl.checkpoint_events import CheckpointBarrier, StopMode, can
from reference_impl.elements import EndOfInput, OperatorInput, StreamElement, Watermark
from reference_impl.mailbox.availability import AVAILABLE, Availability, DataInputStatus
from reference_impl.mailbox.loops import NS_PER_MS, clock_of
from reference_impl.mailbox.timers import Timers
from reference_impl.task.operator_chain import OperatorChain
from reference_impl.task.stream_operator import Emit

MAX_WATERMARK = Watermark(timestamp=2**63 - 1)
"""The end of event time."""

RECORDS_PER_ACTION_MAX = 16
"""Limit for one default action, since the event loop, which brings mail, turns only between actions."""

_MORE = DataInputStatus.MORE_AVAILABLE
_ENDED = (DataInputStatus.END_OF_DATA, DataInputStatus.STOPPED, DataInputStatus.END_OF_INPUT)


class StreamTaskNetworkOutput:
    """Receives what an input reads, for one input of the chain. Mutable: discards after the end of data."""

    __slots__ = ("emit",)

    def __init__(self, emit: Emit) -> None:
        self.emit = emit

    def finish(self) -> None:
        """Discard everything from now on."""
        self.emit = _discard


class StreamTaskInput(Protocol):
    """One input of a task."""

    @property
    def is_available(self) -> Availability:
        """Whether there may be something to read."""

    def emit_next(self, output: StreamTaskNetworkOutput) -> DataInputStatus:
        """Pass at most one element to `output.emit`, and return the input's status."""


@runtime_checkable
class KnowsWatermark(Protocol):
    """An input that knows its watermark; for others the task emits the last watermark itself."""

    @property
    def current_watermark(self) -> int | None:
        """The last watermark that was emitted, or None."""


class StoppableInput(Protocol):
    """A source that can be stopped before its data end (C17)."""

    def stop(self, mode: StopMode) -> None:
        """Return END_OF_DATA or STOPPED next, according to `mode`, then END_OF_INPUT."""


class RecoverableInput(Protocol):
    """An input that reads restored in-flight data first."""

    def finish_recovery(self) -> StreamTaskInput:
        """The input that follows after END_OF_RECOVERY."""


class StreamInputProcessor(Protocol):
    """What the default action of a task calls."""

    @property
    def is_available(self) -> Availability:
        """Whether `process_input` may find something."""

    def process_input(self) -> DataInputStatus:
        """Move one or a few elements; return the combined status of the inputs."""

    def advance_to_end_of_event_time(self) -> None:
        """Emit the last watermark for each input that has not had it (M44)."""

    def stop(self, mode: StopMode) -> bool:
        """Stop the inputs; return whether all are sources that can be stopped (C17)."""


class StreamOneInputProcessor:
    """Reads one input into one input of the chain. Mutable."""

    def __init__(
        self,
        task_input: StreamTaskInput,
        *,
        operator_chain: OperatorChain,
        input_id: int = 1,
        can_emit_batch_of_records: Callable[[], bool] | None = None,
    ) -> None:
        self._chain = operator_chain
        self._input_id = input_id
        self._can_emit_batch = can_emit_batch_of_records
        self._output = StreamTaskNetworkOutput(operator_chain.doors[input_id - 1])
        self._has_ended_event_time = False
        self._take(task_input)

    def _take(self, task_input: StreamTaskInput) -> None:
        self._input = task_input
        self._emit_next = task_input.emit_next

    @property
    def is_available(self) -> Availability:
        return self._input.is_available

    def process_input(self) -> DataInputStatus:
        """Move one element, or several until mail arrives (M48)."""
        status = self._emit_next(self._output)
        if status is _MORE:
            if self._can_emit_batch is None:
                return status
            status = self._emit_batch(self._can_emit_batch)
        if status is DataInputStatus.END_OF_RECOVERY and can(self._input, RecoverableInput):
            self._take(self._input.finish_recovery())
            return _MORE
        if status is DataInputStatus.END_OF_DATA:
            self.advance_to_end_of_event_time()
            self._chain.end_head_input(self._input_id)
        if status in _ENDED:
            self._output.finish()
        return status

    def _emit_batch(self, may_go_on: Callable[[], bool]) -> DataInputStatus:
        for _ in range(RECORDS_PER_ACTION_MAX - 1):
            if not may_go_on():
                break
            status = self._emit_next(self._output)
            if status is not _MORE:
                return status
        return _MORE

    def advance_to_end_of_event_time(self) -> None:
        """Emit the last watermark once, unless the input has emitted it itself."""
        brought = self._input.current_watermark if isinstance(self._input, KnowsWatermark) else None
        if not self._has_ended_event_time and brought != MAX_WATERMARK.timestamp:
            self._output.emit(MAX_WATERMARK)
        self._has_ended_event_time = True

    def stop(self, mode: StopMode) -> bool:
        if can(self._input, StoppableInput):
            self._input.stop(mode)
        return self.is_stoppable

    @property
    def is_stoppable(self) -> bool:
        """Whether the input is a source that can be stopped."""
        return can(self._input, StoppableInput)


class StreamMultipleInputProcessor:
    """Reads several inputs in turn, one element from each that has something. Mutable."""

    def __init__(self, processors: Sequence[StreamOneInputProcessor]) -> None:
        if not processors:
            raise ValueError("a task of several inputs has none; give one or more processors")
        self._processors = list(processors)
        self._last: list[DataInputStatus] = [_MORE] * len(processors)
        """The last status of each input."""
        self._next = 0
        self._wait = AVAILABLE
        self._watched: list[Availability] = [AVAILABLE] * len(processors)
        """For each input, the availability to which `_end_wait` is already attached."""

    @property
    def is_available(self) -> Availability:
        """Whether an input that has not ended is available; otherwise ends when the first one is."""
        waits = {index: self._processors[index].is_available for index in self._going_on()}
        if not waits or any(waits.values()):
            return AVAILABLE
        if self._wait:
            self._wait = Availability()
        for index, wait in waits.items():
            if self._watched[index] is not wait:
                self._watched[index] = wait
                wait.then(self._end_wait)
        return self._wait

    def _end_wait(self) -> None:
        if not self._wait:
            self._wait.end()

    def _going_on(self) -> list[int]:
        """Inputs that have not ended, beginning with the one whose turn it is."""
        count = len(self._processors)
        order = [(self._next + step) % count for step in range(count)]
        return [index for index in order if self._last[index] is not DataInputStatus.END_OF_INPUT]

    def process_input(self) -> DataInputStatus:
        """Read from the next input that has something."""
        for index in self._going_on():
            if self._processors[index].is_available:
                self._next = (index + 1) % len(self._processors)
                before = self._last[index]
                said = self._processors[index].process_input()
                self._last[index] = said
                return self._together(before, said)
        return DataInputStatus.END_OF_INPUT if not self._going_on() else DataInputStatus.NOTHING_AVAILABLE

    def _together(self, before: DataInputStatus, said: DataInputStatus) -> DataInputStatus:
        """The data have ended when those of all inputs have; the same holds for the input."""
        match said:
            case DataInputStatus.END_OF_RECOVERY:
                return said
            case DataInputStatus.END_OF_DATA | DataInputStatus.STOPPED if before is not said:
                return self._end_of_data()
            case DataInputStatus.END_OF_INPUT if not self._going_on():
                return said
        anything = any(self._processors[index].is_available for index in self._going_on())
        return _MORE if anything else DataInputStatus.NOTHING_AVAILABLE

    def _end_of_data(self) -> DataInputStatus:
        if any(said not in _ENDED for said in self._last):
            return _MORE
        stopped = DataInputStatus.STOPPED in self._last
        return DataInputStatus.STOPPED if stopped else DataInputStatus.END_OF_DATA

    def advance_to_end_of_event_time(self) -> None:
        for processor in self._processors:
            processor.advance_to_end_of_event_time()

    def stop(self, mode: StopMode) -> bool:
        """Stop all inputs, or none if one cannot be stopped."""
        if not self.is_stoppable:
            return False
        for processor in self._processors:
            processor.stop(mode)
        return True

    @property
    def is_stoppable(self) -> bool:
        """Whether all inputs are sources that can be stopped."""
        return all(processor.is_stoppable for processor in self._processors)


def _discard(element: OperatorInput) -> None:
    """Takes elements after the end of data."""


class Source(Protocol):
    """A deterministic source: reading a position again gives the same element."""

    def read(self, position: int) -> StreamElement:
        """The element at `position`; after the last one, `EndOfInput`."""

    def barrier_before(self, position: int) -> CheckpointBarrier | None:
        """The barrier directly before `position`, or None."""

    def due_ms(self, position: int) -> int:
        """The time on the loop's clock from which `position` may be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A subtask's part of a checkpoint."""

    number: int
    position: int
    """The position to read first after a restore."""
    elements: Sequence[Any]
    """The state of the operators before the asynchronous one, if any, then its queued elements (A56)."""


class Reader(Protocol):
    """Called with each element before the operator processes it."""

    def takes(self, element: OperatorInput) -> None:
        """`element` enters the operator now."""

    def source_exhausted(self) -> None:
        """The source has no more elements."""


class DueTime:
    """Waits until an element is due. Mutable: `is_available` ends at that time."""

    def __init__(self, *, loop: asyncio.AbstractEventLoop, timers: Timers) -> None:
        self._now_ns = clock_of(loop)
        self._timers = timers
        self.is_available = AVAILABLE

    def has_come(self, due_ms: int) -> bool:
        """Whether `due_ms` has passed; if not, a timer completes `is_available` at that time."""
        wait_ms = due_ms - self._now_ns() // NS_PER_MS
        if wait_ms <= 0:
            return True
        if self.is_available:
            self.is_available = Availability()
            self._timers.register(wait_ms, self.is_available.end)
        return False


class PositionedInput:
    """A `StreamTaskInput` over a source. Mutable. `induce` takes the checkpoint with that number."""

    current_watermark = MAX_WATERMARK.timestamp
    """The source emits its own last watermark, so the task adds none (M44)."""

    def __init__(
        self,
        source: Source,
        *,
        position: int,
        reader: Reader,
        induce: Callable[[int], None],
        due: DueTime,
    ) -> None:
        self.position = position
        self._source = source
        self._reader = reader
        self._induce = induce
        self._due = due
        self._ended = False

    @property
    def is_available(self) -> Availability:
        """Whether the next element is due."""
        return self._due.is_available

    def cut_at(self, checkpoint: int) -> int:
        """The position from which `checkpoint` resumes."""
        del checkpoint
        return self.position

    def emit_next(self, output: StreamTaskNetworkOutput) -> DataInputStatus:
        """Read one element, and take the checkpoint whose barrier follows it."""
        position = self.position
        if not self._due.has_come(self._source.due_ms(position)):
            return DataInputStatus.NOTHING_AVAILABLE
        element = self._source.read(position)
        if isinstance(element, EndOfInput):
            return self._end()
        self._reader.takes(element)
        self.position = position + 1
        output.emit(element)
        barrier = self._source.barrier_before(position + 1)
        if barrier is not None:
            self._induce(barrier.checkpoint_id)
        return DataInputStatus.MORE_AVAILABLE

    def _end(self) -> DataInputStatus:
        if self._ended:
            return DataInputStatus.END_OF_INPUT
        self._ended = True
        self._reader.source_exhausted()
        return DataInputStatus.END_OF_DATA
