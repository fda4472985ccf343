"""What coordinator, tasks and operators tell each other of a checkpoint: its name, options, events and failure.

Answers to Flink's `CheckpointMetaData` and `CheckpointMetrics`, and to the events of its channels: `CheckpointBarrier`,
`CancelCheckpointMarker`, `EventAnnouncement`, `EndOfData` and `EndOfPartitionEvent`; what the others answer to is said
with each. Invariant: all but the exception are frozen values. What names a checkpoint never changes on its way from the
coordinator to the last operator, and events stand in the order in which their channel carries them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol, runtime_checkable

from msgspec import Struct, structs

from reference_impl.errors import OperatorError

__all__ = [
    "AlignmentType",
    "CancelCheckpointMarker",
    "ChannelEvent",
    "CheckpointBarrier",
    "CheckpointException",
    "CheckpointFailureReason",
    "CheckpointListener",
    "CheckpointMetaData",
    "CheckpointMetrics",
    "CheckpointOptions",
    "EndOfData",
    "EndOfPartition",
    "EventAnnouncement",
    "HearsOfAborted",
    "HearsOfComplete",
    "SnapshotType",
    "StopMode",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointMetaData:
    """Names a checkpoint."""

    checkpoint_id: int
    timestamp: int = 0
    """When it was triggered (ms)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointMetrics:
    """What bringing its barriers together has cost (C31); of a task without barriers all are 0."""

    alignment_duration_ms: int = 0
    """Between the first barrier and the last."""
    checkpoint_start_delay_ms: int = 0
    """Between the triggering and the first barrier."""
    bytes_persisted_during_alignment: int = 0
    """Of what was in flight and overtaken (C27)."""


class AlignmentType(Enum):
    """How barriers of several channels are brought together."""

    AT_LEAST_ONCE = "at least once"
    """Not at all: the checkpoint is taken when the last has come, and nobody waits (C30)."""
    ALIGNED = "aligned"
    """A channel whose barrier has come is blocked until all have (C22)."""
    UNALIGNED = "unaligned"
    """The first barrier cuts; what the others have yet to overtake is captured (C27)."""
    FORCED_ALIGNED = "forced aligned"
    """Aligned on this edge, though the job's checkpoints are not (FLINK-22815)."""


class SnapshotType(Enum):
    """What the snapshot is for."""

    CHECKPOINT = "checkpoint"
    SAVEPOINT = "savepoint"
    SAVEPOINT_SUSPEND = "savepoint, then stop without a drain"
    SAVEPOINT_TERMINATE = "savepoint, then drain and stop"

    @property
    def is_savepoint(self) -> bool:
        """Whether somebody asked for it, to keep."""
        return self is not SnapshotType.CHECKPOINT

    @property
    def is_synchronous(self) -> bool:
        """Whether the task waits for its completion and ends with it (C17)."""
        return self in {SnapshotType.SAVEPOINT_SUSPEND, SnapshotType.SAVEPOINT_TERMINATE}

    @property
    def should_drain(self) -> bool:
        """Whether the input is to be ended as if it were exhausted: with the last watermark, with `finish` (M44)."""
        return self is SnapshotType.SAVEPOINT_TERMINATE


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointOptions:
    """What a checkpoint is for, and how its barriers meet what is in flight.

    Travels with each barrier.

    Answers to Flink's `CheckpointOptions`, `CheckpointType` and `SavepointType`. Invariant: a savepoint never captures
    what is in flight between tasks, so its barriers are aligned, whatever the job is configured to (C29).
    """

    snapshot_type: SnapshotType = SnapshotType.CHECKPOINT
    alignment: AlignmentType = AlignmentType.ALIGNED
    aligned_timeout_ms: int | None = None
    """After which an aligned barrier becomes an unaligned one (C26); None: never."""

    def __post_init__(self) -> None:
        if self.snapshot_type.is_savepoint and self.alignment is AlignmentType.UNALIGNED:
            raise ValueError(
                f"a {self.snapshot_type.value} cannot be unaligned (C29); give AlignmentType.ALIGNED"
            )
        if self.aligned_timeout_ms is not None and self.aligned_timeout_ms < 0:
            raise ValueError(
                f"aligned_timeout_ms is {self.aligned_timeout_ms}; give 0 or more, or None for never"
            )

    @property
    def is_exactly_once(self) -> bool:
        """Whether a record counts in one checkpoint only."""
        return self.alignment is not AlignmentType.AT_LEAST_ONCE

    @property
    def is_unaligned(self) -> bool:
        """Whether its barrier overtakes what is in flight, as a priority event (C3)."""
        return self.alignment is AlignmentType.UNALIGNED

    @property
    def needs_alignment(self) -> bool:
        """Whether a channel that has given out its barrier gives out nothing else until it is resumed (C22)."""
        return self.alignment in {AlignmentType.ALIGNED, AlignmentType.FORCED_ALIGNED}

    @property
    def is_timeoutable(self) -> bool:
        """Whether it may still become unaligned (C26); a savepoint may not, whatever its timeout (C29)."""
        return (
            self.alignment is AlignmentType.ALIGNED
            and self.aligned_timeout_ms is not None
            and not self.snapshot_type.is_savepoint
        )

    @property
    def needs_channel_state(self) -> bool:
        """Whether what is in flight belongs to the checkpoint, now or later."""
        return self.is_unaligned or self.is_timeoutable

    def to_unaligned(self) -> CheckpointOptions:
        """The same, unaligned from the start; with no alignment there is no timeout of one."""
        return replace(self, alignment=AlignmentType.UNALIGNED, aligned_timeout_ms=None)

    def with_unaligned_unsupported(self) -> CheckpointOptions:
        """For an edge that must not be overtaken, as a broadcast's (FLINK-22815): aligned, for good."""
        if not self.needs_channel_state:
            return self
        return replace(self, alignment=AlignmentType.FORCED_ALIGNED, aligned_timeout_ms=None)


class CheckpointFailureReason(Enum):
    """The reasons, by Flink's names, each with a sentence for people."""

    CHECKPOINT_DECLINED = "a task declined the checkpoint"
    CHECKPOINT_DECLINED_TASK_NOT_READY = "a task was not running when it was asked for its part (C16)"
    CHECKPOINT_DECLINED_TASK_CLOSING = "a task was closing"
    CHECKPOINT_DECLINED_SUBSUMED = "a newer checkpoint's barrier came first (C21)"
    CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER = "an upstream task gave it up (C24)"
    CHECKPOINT_DECLINED_INPUT_END_OF_STREAM = "an input ended before its barrier came (C23)"
    CHECKPOINT_ASYNC_EXCEPTION = "writing the snapshot failed (C9)"
    CHECKPOINT_EXPIRED = "it did not complete in time (C36)"
    CHECKPOINT_SUBSUMED = "a later checkpoint completed first (C35)"
    CHECKPOINT_COORDINATOR_SHUTDOWN = "the coordinator was shut down"
    CHECKPOINT_COORDINATOR_SUSPEND = "the coordinator was suspended"
    CHANNEL_STATE_SHARED_STREAM_EXCEPTION = "writing what was in flight failed (C28)"
    FINALIZE_CHECKPOINT_FAILURE = "its metadata could not be made durable (C35)"
    IO_EXCEPTION = "an input or output error"
    JOB_FAILURE = "the job failed"
    TASK_FAILURE = "a task failed before it had acknowledged (C36)"
    MINIMUM_TIME_BETWEEN_CHECKPOINTS = "the last one completed less than the minimum pause ago (C33)"
    NOT_ALL_REQUIRED_TASKS_RUNNING = "a task that is needed is not running"
    PERIODIC_SCHEDULER_SHUTDOWN = "the periodic scheduler is off"
    TOO_MANY_CHECKPOINT_REQUESTS = "too many requests wait already (C33)"
    TOO_MANY_CONCURRENT_CHECKPOINTS = "as many as may be are pending already (C32)"
    TRIGGER_CHECKPOINT_FAILURE = "it could not be triggered"


class CheckpointException(OperatorError):
    """Why a checkpoint did not come to its end.

    A checkpoint failed for `reason`; what led to it is the cause.

    Answers to Flink's `CheckpointFailureReason` and `CheckpointException`. Invariant: a failed checkpoint has exactly
    one reason, the first.
    """

    def __init__(self, reason: CheckpointFailureReason, detail: str = "") -> None:
        super().__init__(f"{reason.name}: {reason.value}" + (f"; {detail}" if detail else ""))
        self.reason = reason


@runtime_checkable
class HearsOfComplete(Protocol):
    """Half a listener is one too: Flink's second method has a default that does nothing."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """`checkpoint_id` is durable, and so is all before it; what this raises fails the task (C15)."""


@runtime_checkable
class HearsOfAborted(Protocol):
    """The other half."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """`checkpoint_id` will never complete; what was kept for it alone may go."""


@runtime_checkable
class CheckpointListener(HearsOfComplete, HearsOfAborted, Protocol):
    """Who wants to hear what became of a checkpoint.

    An operator, a function or a sink that acts when a checkpoint is over, in whatever way.

    Answers to Flink's `CheckpointListener`. Invariant: notifications are best effort. One may be lost, come late, come
    after that of a later checkpoint, or name one that this instance never took part in; complete(n) covers every number
    below n, and aborted(n) says nothing about the data of n, which belong to the next that completes (C38, C39).
    """


class StopMode(Enum):
    """Whether the end of data drains the task (M44)."""

    DRAIN = "drain"
    NO_DRAIN = "no drain"


class CheckpointBarrier(Struct, frozen=True, kw_only=True):
    """Checkpoint `checkpoint_id` cuts the channel here."""

    checkpoint_id: int
    timestamp: int = 0
    """When the checkpoint was triggered (ms); its alignment timeout counts from here (C26)."""
    options: CheckpointOptions = CheckpointOptions()

    def as_unaligned(self) -> CheckpointBarrier:
        """The same, overtaking what is in flight (C26, C27); a savepoint's cannot, which is an error (C29)."""
        return (
            self if self.options.is_unaligned else structs.replace(self, options=self.options.to_unaligned())
        )


class CancelCheckpointMarker(Struct, frozen=True, kw_only=True):
    """No barrier of `checkpoint_id` will come; nobody waits for it (C2, C24)."""

    checkpoint_id: int


class EventAnnouncement(Struct, frozen=True, kw_only=True):
    """`barrier` has entered the channel behind what is still to be read: it may yet have to overtake that (C26)."""

    barrier: CheckpointBarrier
    sequence_number: int = 0
    """The place in the channel of what is announced."""


class EndOfData(Struct, frozen=True, kw_only=True):
    """No record follows; barriers may (C18)."""

    mode: StopMode = StopMode.DRAIN


class EndOfPartition(Struct, frozen=True, kw_only=True):
    """Nothing at all follows on this channel (C23)."""


ChannelEvent = CheckpointBarrier | CancelCheckpointMarker | EventAnnouncement | EndOfData | EndOfPartition
"""What a channel carries beside elements."""
