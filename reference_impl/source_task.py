"""A task that reads its source itself, by position: what the harness puts under test.

Answers to Flink's `SourceOperatorStreamTask`. Invariant: everything happens on this thread, as mail or as the default
action; a barrier is handled between two elements, so no snapshot sees half a record; and a checkpoint leaves the
running requests alone (A57).

Deviation: a checkpoint is one step, made durable by a coordinator who sits in the task, so of the `StreamTask` this has
the default action and its waits (M41, M42), and neither asynchronous parts nor notifications.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from reference_impl.data_input_status import DataInputStatus
from reference_impl.elements import EndOfInput, OperatorInput, QueueElement, StreamElement
from reference_impl.events import CheckpointBarrier
from reference_impl.loops import now_ms
from reference_impl.mailbox_processor import MailboxProcessor
from reference_impl.queues.availability import AVAILABLE, Availability
from reference_impl.task.task_waits import TaskWaits
from reference_impl.timers import Timers

__all__ = ["Checkpoint", "ClosableOperator", "Coordinator", "Operator", "Source", "SourceTask"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A subtask's part of a checkpoint: where its source resumes, and what is replayed first (A56)."""

    number: int
    position: int
    """The next source position to read after a restore."""
    elements: Sequence[QueueElement]


class Source(Protocol):
    """A deterministic source that can be read from any position."""

    def read(self, position: int) -> StreamElement:
        """The element at `position`; `EndOfInput` behind the last."""

    def barrier_before(self, position: int) -> CheckpointBarrier | None:
        """The barrier that cuts the stream just before `position`."""

    def due_ms(self, position: int) -> int:
        """When `position` may be read, on the loop's clock."""


class Coordinator(Protocol):
    """What the task tells of itself, and whom it hands its checkpoints; told before the effect."""

    def takes(self, element: OperatorInput) -> None:
        """`element` enters the operator now."""

    def completes(self, checkpoint: Checkpoint) -> None:
        """Make the checkpoint, with all that was emitted before it, durable and visible, or raise."""

    def source_exhausted(self) -> None:
        """No element is left to read."""

    def drained(self) -> None:
        """Every element has left, and the last checkpoint is complete."""


class Operator(Protocol):
    """What the task feeds and drains."""

    @property
    def room(self) -> Availability:
        """Whether an element would be admitted at once (A33)."""

    def open(self, restored: Sequence[QueueElement] = ()) -> None:
        """Replay a snapshot (A61)."""

    def process(self, element: OperatorInput) -> None:
        """Take an element in (A27)."""

    def snapshot(self) -> Sequence[QueueElement]:
        """What has not left (A56)."""

    def end_input(self) -> None:
        """Drain (A66)."""


class ClosableOperator(Operator, Protocol):
    """An operator, as whoever builds a task has it."""

    def close(self) -> None:
        """Release what it holds."""


class SourceTask:
    """One subtask: `run` returns when all input has been emitted and committed.

    Collaborators come in ready made; the task owns none of them and closes none.
    """

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        mailbox_processor: MailboxProcessor,
        timers: Timers,
        operator: Operator,
        source: Source,
        coordinator: Coordinator,
    ) -> None:
        self.waits = TaskWaits(mailbox_processor, loop=loop)
        """How long the source had nothing due, or the operator no room (M42)."""
        self._loop = loop
        self._mailbox_processor = mailbox_processor
        self._timers = timers
        self._operator = operator
        self._source = source
        self._coordinator = coordinator
        self._due = AVAILABLE
        """Whether the next element may be read; else it ends when that is due."""
        self._position = 0
        self._cut = 0
        """The position before which the last barrier was handled; a restored one is not cut again."""
        self._last_checkpoint = 0

    def run(self, restored: Checkpoint | None = None) -> None:
        """Restore, then read to the end. Raises what failed the task (A41, A47)."""
        if restored is not None:
            self._position = self._cut = restored.position
            self._last_checkpoint = restored.number
        elements: Sequence[QueueElement] = restored.elements if restored else ()
        self._operator.open(elements)
        self._mailbox_processor.run_mailbox_loop(self.process_input)

    def process_input(self) -> None:
        """The default action: one barrier or one element, when it is due and there is room (M41).

        Without room the frame is not blocked: other mail, a checkpoint's too, goes on (A33, FLINK-39835).
        """
        match self._emit_next():
            case DataInputStatus.NOTHING_AVAILABLE:
                self.waits.wait(self._operator.room, self._due, AVAILABLE)
            case DataInputStatus.END_OF_DATA:
                self._finish()

    def _emit_next(self) -> DataInputStatus:
        barrier = self._source.barrier_before(self._position)
        if barrier is not None and self._cut < self._position:
            self._checkpoint(barrier.checkpoint_id)
            return DataInputStatus.MORE_AVAILABLE
        if not self._operator.room or not self._is_due():
            return DataInputStatus.NOTHING_AVAILABLE
        match self._source.read(self._position):
            case EndOfInput():
                return DataInputStatus.END_OF_DATA
            case element:
                self._coordinator.takes(element)
                self._position += 1
                self._operator.process(element)
                return DataInputStatus.MORE_AVAILABLE

    def _is_due(self) -> bool:
        """If not, a timer says when it is."""
        wait_ms = self._source.due_ms(self._position) - now_ms(self._loop)
        if wait_ms > 0:
            self._due = Availability()
            self._timers.register(wait_ms, self._due.end)
        return wait_ms <= 0

    def _checkpoint(self, number: int) -> None:
        elements = tuple(self._operator.snapshot())
        self._cut = self._position
        self._last_checkpoint = number
        checkpoint = Checkpoint(number=number, position=self._position, elements=elements)
        self._coordinator.completes(checkpoint)

    def _finish(self) -> None:
        """Drain (A66), commit what the drain emitted, and leave the loop."""
        self._coordinator.source_exhausted()
        self._operator.end_input()
        self._checkpoint(self._last_checkpoint + 1)
        self._coordinator.drained()
        self._mailbox_processor.all_actions_completed()
