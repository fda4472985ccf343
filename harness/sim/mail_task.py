"""Tasks whose checkpoints come as mail, also while they are blocked in `process`; and those of a coordinated job.

Answers to `StreamTask.triggerCheckpointAsync`, to the hard back pressure of Flink's operator before FLINK-39835, and
to the wait for the final checkpoint (FLIP-147). Invariant: an element that waits for a slot is in every snapshot
taken meanwhile, and the position of that snapshot is behind it (FLINK-7949).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

from reference_impl.elements import OperatorInput, QueueElement
from reference_impl.mailbox_processor import MailboxProcessor, Suspension
from reference_impl.queues.availability import AVAILABLE, Availability
from reference_impl.source_task import Coordinator, Operator, SourceTask

__all__ = ["CoordinatedTask", "GlobalCoordinator", "HardCoordinatedTask", "HardTask", "MailTask"]


class MailTask(SourceTask):
    """A task that snapshots when it is told to."""

    is_hard: ClassVar[bool] = False
    """Whether its operator is fed though the queue is full."""

    def __init__(self, *, operator: Operator, mailbox_processor: MailboxProcessor, **parts: Any) -> None:
        self._gate = _Gate(operator, is_hard=self.is_hard, blocked=self._blocked, opened=self._catch_up)
        super().__init__(operator=self._gate, mailbox_processor=mailbox_processor, **parts)
        self._send = mailbox_processor.send_control_mail
        self._is_asked = False
        self._missed: list[Callable[[], None]] = []
        """Checkpoints asked for during the restore; they are cut after it."""

    def _blocked(self) -> Sequence[QueueElement]:
        """What was taken from the source and has no slot yet."""
        entering = self._gate.entering
        return () if entering is None else (entering,)

    def trigger(self, number: int) -> None:
        """Send the mail that cuts checkpoint `number`."""
        self._send(lambda: self._cut_once_open(lambda: self._checkpoint(number)), "cut a checkpoint")

    def trigger_next(self) -> None:
        """Send the mail that cuts the next one, if none is on its way."""
        if not self._is_asked:
            self._is_asked = True
            self._send(lambda: self._cut_once_open(self._cut_next), "cut the next checkpoint")

    def _cut_next(self) -> None:
        self._checkpoint(self._last_checkpoint + 1)
        self._is_asked = False

    def _cut_once_open(self, cut: Callable[[], None]) -> None:
        if self._gate.is_open:
            cut()
        else:
            self._missed.append(cut)

    def _catch_up(self) -> None:
        missed, self._missed = self._missed, []
        for cut in missed:
            cut()


class HardTask(MailTask):
    """Its `process` blocks where there is no slot, and runs mail meanwhile."""

    is_hard: ClassVar[bool] = True


class GlobalCoordinator(Coordinator, Protocol):
    """What a coordinated task tells besides."""

    cuts_at_end: bool
    """Whether the task cuts its last checkpoint itself, as with barriers, or waits for the mail."""

    def finishing(self) -> None:
        """Everything has left; the next checkpoint that is cut is the last that is needed."""

    def is_settled(self, number: int) -> bool:
        """Make what belongs to the completed checkpoint `number` visible; whether it was the last one."""


class CoordinatedTask(MailTask):
    """A task of a job whose checkpoints complete elsewhere: it ends when its last one has."""

    _coordinator: GlobalCoordinator
    _last_wait: Suspension | None = None

    def _finish(self) -> None:
        self._coordinator.source_exhausted()
        self._operator.end_input()
        self._coordinator.finishing()
        self._last_wait = self._mailbox_processor.suspend_default_action()
        if self._coordinator.cuts_at_end:
            self._checkpoint(self._last_checkpoint + 1)

    def notify(self, number: int) -> None:
        """Send the mail that says that checkpoint `number` is complete."""
        self._send(lambda: self._hear(number), "a checkpoint is complete")

    def _hear(self, number: int) -> None:
        if self._coordinator.is_settled(number) and self._last_wait is not None:
            self._last_wait = None
            self._coordinator.drained()
            self._mailbox_processor.all_actions_completed()


class HardCoordinatedTask(CoordinatedTask):
    """Both."""

    is_hard: ClassVar[bool] = True


class _Gate:
    """The operator as the task sees it. Mutable: knows what enters, and whether the restore is over."""

    def __init__(
        self,
        operator: Operator,
        *,
        is_hard: bool,
        blocked: Callable[[], Sequence[QueueElement]],
        opened: Callable[[], None],
    ) -> None:
        self._operator = operator
        self._is_hard = is_hard
        self._blocked = blocked
        self._opened = opened
        self.is_open = False
        self.entering: Any = None

    @property
    def room(self) -> Availability:
        return AVAILABLE if self._is_hard else self._operator.room

    def open(self, restored: Sequence[QueueElement] = ()) -> None:
        self._operator.open(restored)
        self.is_open = True
        self._opened()

    def process(self, element: OperatorInput) -> None:
        self.entering = element
        self._operator.process(element)
        self.entering = None

    def snapshot(self) -> Sequence[QueueElement]:
        return (*self._operator.snapshot(), *self._blocked())

    def end_input(self) -> None:
        self._operator.end_input()
