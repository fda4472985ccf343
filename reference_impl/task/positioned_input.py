"""The input of a task that reads a source by position, and takes a checkpoint where a barrier stands in it.

Answers to Flink's `StreamTaskSourceInput` and, for the checkpoints, to its `ExternallyInducedSource`. Invariant: an
element is read when it is due and not before; a checkpoint that the source induces is taken in the action that read
the element in front of the barrier, so a full queue does not delay it (A33).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from reference_impl.checkpoint_events import CheckpointBarrier
from reference_impl.elements import EndOfInput, OperatorInput, StreamElement
from reference_impl.mailbox.availability import AVAILABLE, Availability, DataInputStatus
from reference_impl.mailbox.loops import now_ms
from reference_impl.mailbox.timers import Timers
from reference_impl.task.input_processor import MAX_WATERMARK, DataOutput

__all__ = ["Checkpoint", "DueTime", "PositionedInput", "Reader", "Source"]

_MORE = DataInputStatus.MORE_AVAILABLE


class Source(Protocol):
    """A deterministic source that can be read from any position: the same one gives the same element."""

    def read(self, position: int) -> StreamElement:
        """The element at `position`; `EndOfInput` behind the last."""

    def barrier_before(self, position: int) -> CheckpointBarrier | None:
        """The barrier that cuts the stream just before `position`."""

    def due_ms(self, position: int) -> int:
        """When `position` may be read, on the loop's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A subtask's part of a checkpoint: where its source resumes, and what is replayed first."""

    number: int
    position: int
    """The next source position to read after a restore."""
    elements: Sequence[Any]
    """The state of the operators in front, if they have any, then the elements that have not left (A56)."""


class Reader(Protocol):
    """What hears of the reading, before its effect."""

    def takes(self, element: OperatorInput) -> None:
        """`element` enters the operator now."""

    def source_exhausted(self) -> None:
        """No element is left to read."""


class DueTime:
    """Waits until an element may be read. Mutable: `is_available` ends when it may."""

    def __init__(self, *, loop: asyncio.AbstractEventLoop, timers: Timers) -> None:
        self._loop = loop
        self._timers = timers
        self.is_available = AVAILABLE

    def has_come(self, due_ms: int) -> bool:
        """Whether `due_ms` has passed; if not, a timer ends `is_available` then."""
        wait_ms = due_ms - now_ms(self._loop)
        if wait_ms <= 0:
            return True
        if self.is_available:
            self.is_available = Availability()
            self._timers.register(wait_ms, self.is_available.end)
        return False


class PositionedInput:
    """A `StreamTaskInput`. Mutable: knows its position. `induce` takes the checkpoint of that number."""

    current_watermark = MAX_WATERMARK.timestamp
    """The source ends with the watermark that it wants, so the task adds none (M44)."""

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
        """The position at which `checkpoint` resumes."""
        del checkpoint
        return self.position

    def emit_next(self, output: DataOutput) -> DataInputStatus:
        """One element, and the checkpoint whose barrier stands behind it."""
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
