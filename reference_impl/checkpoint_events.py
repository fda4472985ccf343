"""What coordinator, tasks and operators exchange about a checkpoint: its id, options, channel events and failures.

Answers to Flink's `CheckpointMetaData` and `CheckpointMetrics`, and to the channel events `CheckpointBarrier`,
`CancelCheckpointMarker`, `EventAnnouncement`, `EndOfData` and `EndOfPartitionEvent`; other classes name theirs.
Invariant: all but the exception are frozen values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from typing import Any, Protocol, TypeGuard, TypeVar

from msgspec import Struct, structs

from reference_impl.errors import OperatorError

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointMetaData:
    """Identifies a checkpoint."""

    checkpoint_id: int
    timestamp: int = 0
    """When it was triggered (ms)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointMetrics:
    """What the alignment of its barriers has cost (C31); all 0 in a task without barriers."""

    alignment_duration_ms: int = 0
    """Time between the first and the last barrier."""
    checkpoint_start_delay_ms: int = 0
    """Time between the trigger and the first barrier."""
    bytes_persisted_during_alignment: int = 0
    """Size of the in-flight data that were overtaken (C27)."""


class AlignmentType(Enum):
    """How the barriers of several channels are aligned."""

    ALIGNED = "aligned"
    """A channel is blocked from its barrier until all barriers have come (C22)."""
    UNALIGNED = "unaligned"
    """The first barrier takes the snapshot; what the others have yet to overtake is captured (C27)."""
    FORCED_ALIGNED = "forced aligned"
    """Aligned on this edge of the job graph, although the job's checkpoints are unaligned (FLINK-22815)."""


class SnapshotType(Enum):
    """The purpose of a snapshot."""

    CHECKPOINT = "checkpoint"
    SAVEPOINT = "savepoint"
    SAVEPOINT_SUSPEND = "savepoint, then stop without a drain"
    SAVEPOINT_TERMINATE = "savepoint, then drain and stop"

    @property
    def is_savepoint(self) -> bool:
        """Whether a user requested it, to keep."""
        return self is not SnapshotType.CHECKPOINT

    @property
    def is_synchronous(self) -> bool:
        """Whether the task waits for its completion and then ends (C17)."""
        return self is SnapshotType.SAVEPOINT_SUSPEND or self is SnapshotType.SAVEPOINT_TERMINATE

    @property
    def should_drain(self) -> bool:
        """Whether the input ends as if it were exhausted, with the last watermark and `finish` (M44)."""
        return self is SnapshotType.SAVEPOINT_TERMINATE


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointOptions:
    """The purpose of a checkpoint, and how its barriers treat in-flight data. Carried by each barrier.

    Answers to Flink's `CheckpointOptions`, `CheckpointType` and `SavepointType`. Invariant: a savepoint never captures
    in-flight data, so its barriers are aligned in any job (C29).
    """

    snapshot_type: SnapshotType = SnapshotType.CHECKPOINT
    alignment: AlignmentType = AlignmentType.ALIGNED
    aligned_timeout_ms: int | None = None
    """An aligned barrier becomes unaligned after this time (C26); None for never."""

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
    def is_unaligned(self) -> bool:
        """Whether its barrier overtakes in-flight data, as a priority event (C3)."""
        return self.alignment is AlignmentType.UNALIGNED

    @property
    def needs_alignment(self) -> bool:
        """Whether a channel that has delivered its barrier delivers nothing more until it is resumed (C22)."""
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
        """Whether in-flight data belong to the checkpoint, now or after a timeout."""
        return self.is_unaligned or self.is_timeoutable

    def to_unaligned(self) -> CheckpointOptions:
        """The same options, unaligned and without timeout."""
        return replace(self, alignment=AlignmentType.UNALIGNED, aligned_timeout_ms=None)

    def with_unaligned_unsupported(self) -> CheckpointOptions:
        """The same options for an edge on which nothing may overtake, such as a broadcast edge (FLINK-22815)."""
        if not self.needs_channel_state:
            return self
        return replace(self, alignment=AlignmentType.FORCED_ALIGNED, aligned_timeout_ms=None)


class CheckpointFailureReason(Enum):
    """Why a checkpoint failed: Flink's names, each with a sentence."""

    CHECKPOINT_DECLINED = "a task declined the checkpoint"
    CHECKPOINT_DECLINED_TASK_NOT_READY = "a task was not running when it was asked for its part (C16)"
    CHECKPOINT_DECLINED_TASK_CLOSING = "a task was closing"
    CHECKPOINT_DECLINED_SUBSUMED = "a newer checkpoint's barrier came first (C21)"
    CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER = "an upstream task gave it up (C24)"
    CHECKPOINT_DECLINED_INPUT_END_OF_STREAM = "an input ended before its barrier came (C23)"
    CHECKPOINT_ASYNC_EXCEPTION = "writing the snapshot failed (C9)"
    CHECKPOINT_EXPIRED = "it did not complete in time (C36)"


class CheckpointException(OperatorError):
    """A checkpoint failed for `reason`; the error that led to it is the cause.

    Answers to Flink's `CheckpointFailureReason` and `CheckpointException`. Invariant: a failed checkpoint has exactly
    one reason, the first.
    """

    def __init__(self, reason: CheckpointFailureReason, detail: str = "") -> None:
        super().__init__(f"{reason.name}: {reason.value}" + (f"; {detail}" if detail else ""))
        self.reason = reason


def can(part: object, ability: type[T]) -> TypeGuard[T]:
    """Whether the class of `part` has all methods of the protocol `ability`; cached by class."""
    kind: Any = type(part)
    wanted: Any = ability
    return _has(kind, wanted)


@cache
def _has(kind: type[object], ability: type[object]) -> bool:
    return all(hasattr(kind, name) for name in vars(ability) if not name.startswith("_"))


class HearsOfComplete(Protocol):
    """One method of `CheckpointListener`; the other is optional, as Flink's has an empty default."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """The checkpoint and all older ones are durable; an exception fails the task (C15)."""


class HearsOfAborted(Protocol):
    """The other method of `CheckpointListener`."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """The checkpoint will never complete; what was kept only for it may be discarded."""


class CheckpointListener(HearsOfComplete, HearsOfAborted, Protocol):
    """An operator, function or sink that is notified when a checkpoint has completed or was aborted.

    Answers to Flink's `CheckpointListener`. Invariant: notifications are best effort. One may be lost, late, later
    than that of a newer checkpoint, or name a checkpoint in which this instance took no part. The completion of n
    covers all older checkpoints; the abort of n says nothing about its data, which belong to the next one that
    completes (C38, C39).
    """


class StopMode(Enum):
    """Whether the end of data drains the task (M44)."""

    DRAIN = "drain"
    NO_DRAIN = "no drain"


class CheckpointBarrier(Struct, frozen=True, kw_only=True):
    """Separates the records of a channel that belong to checkpoint `checkpoint_id` from later ones."""

    checkpoint_id: int
    timestamp: int = 0
    """When the checkpoint was triggered (ms); its alignment timeout starts then (C26)."""
    options: CheckpointOptions = CheckpointOptions()

    def as_unaligned(self) -> CheckpointBarrier:
        """The same barrier as an unaligned one (C26, C27); an error for a savepoint's (C29)."""
        return (
            self if self.options.is_unaligned else structs.replace(self, options=self.options.to_unaligned())
        )


class CancelCheckpointMarker(Struct, frozen=True, kw_only=True):
    """No barrier of `checkpoint_id` will come on this channel, so nothing should wait for it (C2, C24)."""

    checkpoint_id: int


class EventAnnouncement(Struct, frozen=True, kw_only=True):
    """`barrier` waits in the channel behind unread elements, which it may have to overtake (C26)."""

    barrier: CheckpointBarrier
    sequence_number: int = 0
    """The position of the announced barrier in the channel."""


class EndOfData(Struct, frozen=True, kw_only=True):
    """No record follows on this channel; barriers may (C18)."""

    mode: StopMode = StopMode.DRAIN


class EndOfPartition(Struct, frozen=True, kw_only=True):
    """The end of a channel: nothing follows on it (C23)."""


ChannelEvent = CheckpointBarrier | CancelCheckpointMarker | EventAnnouncement | EndOfData | EndOfPartition
"""What a channel carries besides elements."""
