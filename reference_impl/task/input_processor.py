"""From the inputs of a task into the head of its chain, an element at a time.

Answers to Flink's `StreamInputProcessor`, `StreamOneInputProcessor`, `StreamMultipleInputProcessor` and
`StreamTaskInput`. Invariant: an input is read only while its last word was that there may be more, and of several
the one that has waited longest for its turn comes first; the head hears of the end of each input once, after the
last watermark there can be (M44).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from reference_impl.checkpoint_events import StopMode
from reference_impl.elements import OperatorInput, Watermark
from reference_impl.mailbox.availability import AVAILABLE, Availability, DataInputStatus
from reference_impl.task.operator_chain import OperatorChain
from reference_impl.task.stream_operator import Emit

__all__ = [
    "MAX_WATERMARK",
    "RECORDS_PER_ACTION_MAX",
    "DataOutput",
    "KnowsWatermark",
    "RecoverableInput",
    "StoppableInput",
    "StreamInputProcessor",
    "StreamMultipleInputProcessor",
    "StreamOneInputProcessor",
    "StreamTaskInput",
]

MAX_WATERMARK = Watermark(timestamp=2**63 - 1)
"""All event time is over."""

RECORDS_PER_ACTION_MAX = 16
"""In one default action at most, even if no mail comes: the loop that brings it turns only between actions."""

_MORE = DataInputStatus.MORE_AVAILABLE
_ENDED = (DataInputStatus.END_OF_DATA, DataInputStatus.STOPPED, DataInputStatus.END_OF_INPUT)


class DataOutput:
    """Where an input puts what it reads: into one door of the chain. Mutable: discards, once the data have ended."""

    __slots__ = ("emit",)

    def __init__(self, emit: Emit) -> None:
        self.emit = emit

    def finish(self) -> None:
        """What comes now, comes too late."""
        self.emit = _discard


class StreamTaskInput(Protocol):
    """One input of a task."""

    @property
    def is_available(self) -> Availability:
        """Whether something may be there to read."""

    def emit_next(self, output: DataOutput) -> DataInputStatus:
        """Give at most one element to `output.emit`; how the input stands now."""


@runtime_checkable
class KnowsWatermark(Protocol):
    """An input that knows how far event time has come; of others it is assumed that they bring no last watermark."""

    @property
    def current_watermark(self) -> int | None:
        """The last one that was emitted."""


@runtime_checkable
class StoppableInput(Protocol):
    """A source that can be told to end before its data do (C17)."""

    def stop(self, mode: StopMode) -> None:
        """Say END_OF_DATA or STOPPED next, as `mode` asks, then END_OF_INPUT."""


@runtime_checkable
class RecoverableInput(Protocol):
    """An input that first reads what was in flight."""

    def finish_recovery(self) -> StreamTaskInput:
        """The input that takes over after END_OF_RECOVERY."""


class StreamInputProcessor(Protocol):
    """What the default action of a task turns."""

    @property
    def is_available(self) -> Availability:
        """Whether `process_input` may find something."""

    def process_input(self) -> DataInputStatus:
        """Move an element, or a few; how the inputs stand, all together."""

    def advance_to_end_of_event_time(self) -> None:
        """Give the head the last watermark on each input that has not had it (M44)."""

    def stop(self, mode: StopMode) -> bool:
        """End the data here, if the inputs are sources that can; whether they can (C17)."""


class StreamOneInputProcessor:
    """One input, into one door. Mutable."""

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
        self._output = DataOutput(operator_chain.doors[input_id - 1])
        self._has_ended_event_time = False
        self._take(task_input)

    def _take(self, task_input: StreamTaskInput) -> None:
        self._input = task_input
        self._emit_next = task_input.emit_next

    @property
    def is_available(self) -> Availability:
        """Of the input."""
        return self._input.is_available

    def process_input(self) -> DataInputStatus:
        """One element, or as many as may come before the next mail (M48)."""
        status = self._emit_next(self._output)
        if status is _MORE:
            if self._can_emit_batch is None:
                return status
            status = self._emit_batch(self._can_emit_batch)
        if status is DataInputStatus.END_OF_RECOVERY and isinstance(self._input, RecoverableInput):
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
        """Once, and only if the input has not brought it itself."""
        brought = self._input.current_watermark if isinstance(self._input, KnowsWatermark) else None
        if not self._has_ended_event_time and brought != MAX_WATERMARK.timestamp:
            self._output.emit(MAX_WATERMARK)
        self._has_ended_event_time = True

    def stop(self, mode: StopMode) -> bool:
        """See `StreamInputProcessor.stop`."""
        if isinstance(self._input, StoppableInput):
            self._input.stop(mode)
        return self.is_stoppable

    @property
    def is_stoppable(self) -> bool:
        """Whether the input is a source that can be told to end."""
        return isinstance(self._input, StoppableInput)


class StreamMultipleInputProcessor:
    """Several inputs, taken in turn: none that has something waits for more than one element of each other. Mutable."""

    def __init__(self, processors: Sequence[StreamOneInputProcessor]) -> None:
        if not processors:
            raise ValueError("a task of several inputs has none; give one or more processors")
        self._processors = list(processors)
        self._last: list[DataInputStatus] = [_MORE] * len(processors)
        """What each said last."""
        self._next = 0
        self._wait = AVAILABLE
        self._watched: list[Availability] = [AVAILABLE] * len(processors)
        """What each will say when it has something, and we listen to already."""

    @property
    def is_available(self) -> Availability:
        """Whether one of those that have not ended is; else what ends when the first of them is."""
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
        """Those that may still have something, from the one whose turn it is."""
        count = len(self._processors)
        order = [(self._next + step) % count for step in range(count)]
        return [index for index in order if self._last[index] is not DataInputStatus.END_OF_INPUT]

    def process_input(self) -> DataInputStatus:
        """From the next input that has something."""
        for index in self._going_on():
            if self._processors[index].is_available:
                self._next = (index + 1) % len(self._processors)
                before = self._last[index]
                said = self._processors[index].process_input()
                self._last[index] = said
                return self._together(before, said)
        return DataInputStatus.END_OF_INPUT if not self._going_on() else DataInputStatus.NOTHING_AVAILABLE

    def _together(self, before: DataInputStatus, said: DataInputStatus) -> DataInputStatus:
        """The data end when the last input's do, and the input when the last one does."""
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
        """On each."""
        for processor in self._processors:
            processor.advance_to_end_of_event_time()

    def stop(self, mode: StopMode) -> bool:
        """All of them, or, if some cannot, none."""
        if not self.is_stoppable:
            return False
        for processor in self._processors:
            processor.stop(mode)
        return True

    @property
    def is_stoppable(self) -> bool:
        """Whether all inputs are sources that can be told to end."""
        return all(processor.is_stoppable for processor in self._processors)


def _discard(element: OperatorInput) -> None:
    """The data have ended."""
