"""The input of a task that reads a source by position and takes a checkpoint where the source has a barrier.

Answers to Flink's `StreamTaskSourceInput` and, for checkpoints, to `ExternallyInducedSource`. Invariant: an element is
not read before it is due; a checkpoint is taken in the same action that read the element before its barrier, so a full
queue does not delay it (A33).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from reference_impl.checkpoint_events import CheckpointBarrier
from reference_impl.elements import EndOfInput, OperatorInput, StreamElement
from reference_impl.mailbox.availability import AVAILABLE, Availability, DataInputStatus
from reference_impl.mailbox.loops import NS_PER_MS, clock_of
from reference_impl.mailbox.timers import Timers
from reference_impl.task.input_processor import MAX_WATERMARK, StreamTaskNetworkOutput

_MORE = DataInputStatus.MORE_AVAILABLE


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
        return _MORE

    def _end(self) -> DataInputStatus:
        if self._ended:
            return DataInputStatus.END_OF_INPUT
        self._ended = True
        self._reader.source_exhausted()
        return DataInputStatus.END_OF_DATA
