"""What a task is given of the job around it: what it knows of the job, whom it tells, and where its chain emits to.

Answers to Flink's `Environment`, `RecordWriter` and `RecordWriterDelegate`. Invariant: nothing in the environment
changes while the task lives; a writer passes elements and events on in the order in which they were given, but for an
event of priority, which may overtake (C3, C27).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from reference_impl.checkpoint_events import ChannelEvent, CheckpointException
from reference_impl.elements import OperatorInput
from reference_impl.mailbox.availability import AVAILABLE, Availability

__all__ = ["LocalRecordWriter", "RecordWriter", "TaskEnvironment"]


def _run_at_once(action: Callable[[], None]) -> None:
    action()


def _nothing_was_in_flight() -> None:
    """There is no channel state."""


def _nobody_asks() -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEnvironment:
    """What a task knows of the job around it, and whom it tells what became of it.

    Handed to a task when it is built.

    Answers to Flink's `Environment`. Invariant: nothing in here changes while the task lives.
    """

    task_name: str
    decline_checkpoint: Callable[[int, CheckpointException], None]
    """The coordinator hears that the task has no part in a checkpoint (C16)."""
    notify_end_of_data: Callable[[], None] = _nobody_asks
    """The coordinator hears that the task has processed its last record (M41)."""
    restored_checkpoint_id: int | None = None
    checkpoints_after_tasks_finish: bool = True
    """Whether a task that has no more data stays until a last checkpoint is complete (C18, FLIP-147)."""
    read_channel_state: Callable[[], None] = _nothing_was_in_flight
    """Put what was in flight back into the channels; runs in `channel_io`, and what it raises fails the task (M46)."""
    channel_io: Callable[[Callable[[], None]], None] = _run_at_once
    """Runs one action, on whatever thread, now or later."""
    changelog: Callable[[], Availability] | None = None
    """Whether the state's changelog takes further changes (M42); None: there is none."""


class RecordWriter(Protocol):
    """Where a chain's last operator emits to: partitions of a network, or a sink.

    What a task writes to.

    Answers to Flink's `RecordWriter` and `RecordWriterDelegate`. Invariant: elements and events leave in the order in
    which they were given, but for an event of priority, which may overtake (C3, C27).
    """

    @property
    def is_available(self) -> Availability:
        """Whether a record would be taken without waiting: else the task is under soft back pressure (M42)."""

    @property
    def all_data_processed(self) -> Availability:
        """Whether every reader has processed what came before the `EndOfData` (M47)."""

    def emit(self, element: OperatorInput) -> None:
        """To one reader, or, unless it is a record, to all."""

    def broadcast_event(self, event: ChannelEvent, *, is_priority: bool = False) -> None:
        """To all readers."""

    def flush(self) -> None:
        """Nothing that was given is held back any longer."""


class LocalRecordWriter:
    """A writer without a network: elements and events go to whom they concern at once, and there is always room."""

    is_available: Availability = AVAILABLE
    all_data_processed: Availability = AVAILABLE

    def __init__(
        self,
        emit: Callable[[OperatorInput], None],
        *,
        on_event: Callable[[ChannelEvent], None] = lambda _event: None,
    ) -> None:
        self.emit = emit
        self._on_event = on_event

    def broadcast_event(self, event: ChannelEvent, *, is_priority: bool = False) -> None:
        """Nothing is on its way here that a priority event could overtake."""
        del is_priority
        self._on_event(event)

    def flush(self) -> None:
        """Nothing is held back."""
