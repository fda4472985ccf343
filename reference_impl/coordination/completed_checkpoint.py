"""A checkpoint that is complete: what every operator had at one cut through the job.

Answers to Flink's `CompletedCheckpoint`, `OperatorState` and `FullyFinishedOperatorState`. Invariant: values; they
hold all that a restore at any parallelism needs, and nothing of the tasks that made them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from reference_impl.coordination.checkpoint_properties import CheckpointProperties
from reference_impl.coordination.execution_graph import ExecutionAttemptID
from reference_impl.snapshots.task_state_snapshot import OperatorSubtaskState, TaskStateSnapshot

__all__ = ["CompletedCheckpoint", "OperatorState", "StateHandle"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateHandle:
    """Names what one task wrote for one checkpoint; discarded once, or referenced by a checkpoint that is kept."""

    checkpoint_id: int
    task: ExecutionAttemptID
    snapshot: TaskStateSnapshot = field(compare=False)

    def discard(self) -> None:
        """Release what has to be released."""
        self.snapshot.discard_state()


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorState:
    """What the subtasks of one operator had."""

    operator_id: str
    parallelism: int
    max_parallelism: int
    subtask_states: Mapping[int, OperatorSubtaskState] = field(default_factory=dict)
    """Of those that had any."""
    is_fully_finished: bool = False
    """No subtask runs any more, nor will one after a restore (C19)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedCheckpoint:
    """The checkpoint of a job."""

    job_id: str
    checkpoint_id: int
    timestamp_ms: int
    """When it was triggered."""
    completion_timestamp_ms: int
    properties: CheckpointProperties
    operator_states: Mapping[str, OperatorState]
    handles: tuple[StateHandle, ...] = ()
    """What it refers to: discarded with it, not before. None in one that was read back: there all is in its file."""
