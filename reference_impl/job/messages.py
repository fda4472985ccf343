"""The messages between the checkpoint coordinator and the tasks, and the settings behind them.

Answers to Flink's `TriggerCheckpoint`, `AcknowledgeCheckpoint`, `DeclineCheckpoint`,
`NotifyCheckpointComplete`/`Aborted`/`Subsumed`, `CheckpointProperties` and `CheckpointCoordinatorConfiguration`.
Invariant: messages are frozen values; from its content a receiver can tell whether one is repeated, late or obsolete.
"""

from __future__ import annotations

from dataclasses import dataclass

from reference_impl.checkpoint_events import (
    AlignmentType,
    CheckpointException,
    CheckpointMetaData,
    CheckpointMetrics,
    CheckpointOptions,
    SnapshotType,
)
from reference_impl.checkpoints.task_state import TaskStateSnapshot
from reference_impl.job.execution_graph import ExecutionAttemptID

__all__ = [
    "AcknowledgeCheckpoint",
    "CheckpointCoordinatorConfiguration",
    "CheckpointProperties",
    "DeclineCheckpoint",
    "NotifyCheckpointAborted",
    "NotifyCheckpointComplete",
    "NotifyCheckpointSubsumed",
    "ToTask",
    "TriggerCheckpoint",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointProperties:
    """How one checkpoint is treated: whether it may be subsumed, and who owns its files.

    Answers to Flink's `CheckpointProperties`. Invariant: a savepoint belongs to the user who requested it; a later
    checkpoint neither aborts it while it is pending nor discards it when it is complete (C35).
    """

    snapshot_type: SnapshotType = SnapshotType.CHECKPOINT
    is_forced: bool = False
    """Whether it starts even if the maximum number of checkpoints is pending (C32)."""

    @property
    def is_savepoint(self) -> bool:
        """Whether a user requested it, to keep."""
        return self.snapshot_type.is_savepoint

    @property
    def can_be_subsumed(self) -> bool:
        """Whether a later checkpoint that completes first aborts it (C35)."""
        return not self.is_savepoint and not self.is_forced

    @property
    def discard_subsumed(self) -> bool:
        """Whether its state is discarded when the store drops it."""
        return not self.is_savepoint


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCoordinatorConfiguration:
    """The checkpoint settings of one job.

    Answers to Flink's `CheckpointCoordinatorConfiguration`. Invariant: impossible values are refused by the
    constructor.
    """

    checkpoint_interval_ms: int | None = None
    """None for no periodic checkpoints."""
    initial_delay_ms: int | None = None
    """Delay of the first periodic checkpoint; None for one interval. Flink draws it at random."""
    checkpoint_timeout_ms: int = 600_000
    min_pause_between_checkpoints_ms: int = 0
    """From the completion of a checkpoint to the start of the next periodic one (C33)."""
    max_concurrent_checkpoints: int = 1
    max_queued_requests: int = 1_000
    is_exactly_once: bool = True
    is_unaligned: bool = False
    aligned_timeout_ms: int | None = None
    """For unaligned checkpoints: how long barriers stay aligned first; 0 or None for not at all (C26)."""
    allow_checkpoints_after_tasks_finished: bool = True

    def __post_init__(self) -> None:
        for name, least in (
            ("checkpoint_timeout_ms", 1),
            ("min_pause_between_checkpoints_ms", 0),
            ("max_concurrent_checkpoints", 1),
            ("max_queued_requests", 1),
        ):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; give {least} or more")
        if self.checkpoint_interval_ms is not None and self.checkpoint_interval_ms < 1:
            raise ValueError(
                f"checkpoint_interval_ms is {self.checkpoint_interval_ms}; give 1 or more, or None"
            )

    def options(self, snapshot_type: SnapshotType) -> CheckpointOptions:
        """The options of a checkpoint's barriers; a savepoint's are always aligned (C29)."""
        if not self.is_exactly_once:
            return CheckpointOptions(snapshot_type=snapshot_type, alignment=AlignmentType.AT_LEAST_ONCE)
        if snapshot_type.is_savepoint or not self.is_unaligned:
            return CheckpointOptions(snapshot_type=snapshot_type)
        if not self.aligned_timeout_ms:
            return CheckpointOptions(snapshot_type=snapshot_type, alignment=AlignmentType.UNALIGNED)
        return CheckpointOptions(snapshot_type=snapshot_type, aligned_timeout_ms=self.aligned_timeout_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerCheckpoint:
    """Take a snapshot, and send barriers after it."""

    metadata: CheckpointMetaData
    options: CheckpointOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyCheckpointComplete:
    """The checkpoint is durable."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyCheckpointAborted:
    """The checkpoint will never complete; also names the latest completed one (C14)."""

    checkpoint_id: int
    latest_completed_id: int = 0
    """0 if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyCheckpointSubsumed:
    """The checkpoint and all older ones are no longer kept (C13)."""

    checkpoint_id: int


ToTask = TriggerCheckpoint | NotifyCheckpointComplete | NotifyCheckpointAborted | NotifyCheckpointSubsumed
"""What the coordinator sends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgeCheckpoint:
    """The sender has written its part; `state` refers to it."""

    job_id: str
    checkpoint_id: int
    task: ExecutionAttemptID
    state: TaskStateSnapshot | None = None
    """None if the task has no state (C10)."""
    metrics: CheckpointMetrics | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclineCheckpoint:
    """The sender will not deliver its part."""

    job_id: str
    checkpoint_id: int
    task: ExecutionAttemptID
    cause: CheckpointException
