"""What a task gets from its job: facts about the job, callbacks to the coordinator, and the writer for its output.

Answers to Flink's `Environment`, `RecordWriter` and `RecordWriterDelegate`. Invariant: the environment does not change
while the task lives. A writer sends elements and events in the order in which they were given, except that a priority
event may overtake (C3, C27).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from reference_impl.checkpoint_events import ChannelEvent, CheckpointException
from reference_impl.elements import OperatorInput
from reference_impl.mailbox.availability import AVAILABLE, Availability


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEnvironment:
    """What a task knows of its job, and the callbacks through which it reports. Passed to the task's constructor.

    Answers to Flink's `Environment`. Invariant: it does not change while the task lives.
    """

    task_name: str
    decline_checkpoint: Callable[[int, CheckpointException], None]
    """Tells the coordinator that the task does not take part in a checkpoint (C16)."""
    notify_end_of_data: Callable[[], None] = lambda: None
    """Tells the coordinator that the task has processed its last record (M41)."""
    restored_checkpoint_id: int | None = None
    checkpoints_after_tasks_finish: bool = True
    """Whether a task without more data stays until a last checkpoint is complete (C18, FLIP-147)."""
    read_channel_state: Callable[[], None] = lambda: None
    """Puts in-flight data back into the channels. Runs in `channel_io`; an exception fails the task (M46)."""
    channel_io: Callable[[Callable[[], None]], None] = lambda action: action()
    """Runs one action, on any thread, now or later."""
    changelog: Callable[[], Availability] | None = None
    """Whether the state changelog accepts changes (M42); None if there is no changelog."""


class RecordWriter(Protocol):
    """The output of a chain's last operator: partitions of a network, or a sink.

    Answers to Flink's `RecordWriter` and `RecordWriterDelegate`. Invariant: elements and events leave in the order in
    which they were given, except that a priority event may overtake (C3, C27).
    """

    @property
    def is_available(self) -> Availability:
        """Whether a record could be written without waiting; if not, the task is under soft back pressure (M42)."""

    @property
    def all_data_processed(self) -> Availability:
        """Whether every reader has processed everything before the `EndOfData` (M47)."""

    def emit(self, element: OperatorInput) -> None:
        """Send a record to one reader, anything else to all."""

    def broadcast_event(self, event: ChannelEvent, *, is_priority: bool = False) -> None: ...

    def flush(self) -> None:
        """Send everything that is buffered."""


class LocalRecordWriter:
    """A writer without a network: passes elements and events on at once, and always has room."""

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
        """Send an event; nothing is in flight that a priority event could overtake."""
        del is_priority
        self._on_event(event)

    def flush(self) -> None: ...
