"""The messages between the coordinator and the tasks, and the settings they carry out: properties and configuration.

Answers to Flink's `TriggerCheckpoint`, `AcknowledgeCheckpoint`, `DeclineCheckpoint`,
`NotifyCheckpointComplete`/`Aborted`/`Subsumed`, `CheckpointProperties` and `CheckpointCoordinatorConfiguration`.
Invariant: frozen values; whoever receives a message twice, late or for something that is over can tell by what stands
in it.
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
    """How one checkpoint is treated: whether it may be passed over, and whose its files are.

    What a checkpoint was asked for as.

    Answers to Flink's `CheckpointProperties`. Invariant: a savepoint belongs to whoever asked for it; no later
    checkpoint drops it while it is pending, or discards it once it is complete (C35).
    """

    snapshot_type: SnapshotType = SnapshotType.CHECKPOINT
    is_forced: bool = False
    """Started even where as many as may be are pending (C32)."""

    @property
    def is_savepoint(self) -> bool:
        """Whether somebody asked for it, to keep."""
        return self.snapshot_type.is_savepoint

    @property
    def can_be_subsumed(self) -> bool:
        """Whether a later one that completes first ends it (C35)."""
        return not self.is_savepoint and not self.is_forced

    @property
    def discard_subsumed(self) -> bool:
        """Whether its state goes when the store keeps it no longer."""
        return not self.is_savepoint


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCoordinatorConfiguration:
    """How often, how many, how long, and with which barriers.

    Of one job.

    Answers to Flink's `CheckpointCoordinatorConfiguration`. Invariant: values that cannot be meant are refused at once.
    """

    checkpoint_interval_ms: int | None = None
    """None: only when somebody asks."""
    initial_delay_ms: int | None = None
    """Before the first periodic one; None: an interval. Flink draws it, we are told it."""
    checkpoint_timeout_ms: int = 600_000
    min_pause_between_checkpoints_ms: int = 0
    """From the completion of one to the start of the next periodic one (C33)."""
    max_concurrent_checkpoints: int = 1
    max_queued_requests: int = 1_000
    is_exactly_once: bool = True
    is_unaligned: bool = False
    aligned_timeout_ms: int | None = None
    """With unaligned ones: how long a barrier may wait before it overtakes; None: not at all (C26)."""
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
        """What its barriers carry: a savepoint's are always aligned (C29)."""
        if not self.is_exactly_once:
            return CheckpointOptions(snapshot_type=snapshot_type, alignment=AlignmentType.AT_LEAST_ONCE)
        if snapshot_type.is_savepoint or not self.is_unaligned:
            return CheckpointOptions(snapshot_type=snapshot_type)
        if self.aligned_timeout_ms is None:
            return CheckpointOptions(snapshot_type=snapshot_type, alignment=AlignmentType.UNALIGNED)
        return CheckpointOptions(snapshot_type=snapshot_type, aligned_timeout_ms=self.aligned_timeout_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerCheckpoint:
    """Take your part in it, and send barriers after it."""

    metadata: CheckpointMetaData
    options: CheckpointOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyCheckpointComplete:
    """It is durable."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyCheckpointAborted:
    """It will never complete; the latest that did was another (C14)."""

    checkpoint_id: int
    latest_completed_id: int = 0
    """0: none yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyCheckpointSubsumed:
    """It and all before it are no longer kept (C13)."""

    checkpoint_id: int


ToTask = TriggerCheckpoint | NotifyCheckpointComplete | NotifyCheckpointAborted | NotifyCheckpointSubsumed
"""What a coordinator sends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgeCheckpoint:
    """The sender's part of it is durable; `state` is where."""

    job_id: str
    checkpoint_id: int
    task: ExecutionAttemptID
    state: TaskStateSnapshot | None = None
    """None: the task has none (C10)."""
    metrics: CheckpointMetrics | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclineCheckpoint:
    """The sender will give no part of it."""

    job_id: str
    checkpoint_id: int
    task: ExecutionAttemptID
    cause: CheckpointException
