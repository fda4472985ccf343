"""What the coordinator and the tasks tell each other about checkpoints.

Answers to Flink's `TriggerCheckpoint`, `AcknowledgeCheckpoint`, `DeclineCheckpoint` and
`NotifyCheckpointComplete`/`Aborted`/`Subsumed`. Invariant: frozen values; whoever receives one twice, late or for
something that is over can tell by what stands in it.
"""

from __future__ import annotations

from dataclasses import dataclass

from reference_impl.checkpoint_failure import CheckpointException
from reference_impl.checkpoint_metadata import CheckpointMetaData, CheckpointMetrics
from reference_impl.checkpoint_options import CheckpointOptions
from reference_impl.coordination.execution_graph import ExecutionAttemptID
from reference_impl.snapshots.task_state_snapshot import TaskStateSnapshot

__all__ = [
    "AcknowledgeCheckpoint",
    "DeclineCheckpoint",
    "NotifyCheckpointAborted",
    "NotifyCheckpointComplete",
    "NotifyCheckpointSubsumed",
    "ToTask",
    "TriggerCheckpoint",
]


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
