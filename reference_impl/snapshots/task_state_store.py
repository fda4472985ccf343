"""What a subtask was restored with, and whom it tells of its parts of checkpoints.

Answers to Flink's `TaskStateManager` and `CheckpointResponder`. Invariant: of each checkpoint it acknowledges once, or
declines, never both; what has not ended when the task does is neither (C8, C9).
"""

from __future__ import annotations

from typing import Protocol

from reference_impl.checkpoint_failure import CheckpointException
from reference_impl.checkpoint_metadata import CheckpointMetaData, CheckpointMetrics
from reference_impl.snapshots.task_state_snapshot import OperatorSubtaskState, TaskStateSnapshot

__all__ = ["CheckpointResponder", "TaskStateStore"]


class CheckpointResponder(Protocol):
    """The way to the checkpoint coordinator."""

    def acknowledge_checkpoint(
        self, checkpoint_id: int, metrics: CheckpointMetrics, snapshot: TaskStateSnapshot | None
    ) -> None:
        """The task's part is done; None: it has no state (C10)."""

    def decline_checkpoint(self, checkpoint_id: int, cause: CheckpointException) -> None:
        """The task will not give its part."""


class TaskStateStore:
    """Of one subtask, for one attempt. Mutable: remembers the last notifications."""

    def __init__(
        self,
        *,
        responder: CheckpointResponder,
        restored: TaskStateSnapshot | None = None,
        restored_checkpoint_id: int | None = None,
    ) -> None:
        self._responder = responder
        self._restored = restored
        self.restored_checkpoint_id = restored_checkpoint_id
        """From which checkpoint the task begins; None: from none (C45)."""
        self.last_completed_id: int | None = None
        self.last_aborted_id: int | None = None

    @property
    def is_task_deployed_as_finished(self) -> bool:
        """Whether it had finished before the checkpoint that is restored, and is not to run (C19).

        Whoever assigns the states says so, of all subtasks of an operator together: where only some had finished, all
        run again.
        """
        return self._restored is not None and self._restored.is_task_deployed_as_finished

    def restored_state(self, operator_id: str) -> OperatorSubtaskState | None:
        """What the checkpoint holds for an operator; None: nothing."""
        return None if self._restored is None else self._restored.operator_states.get(operator_id)

    def report_task_state_snapshots(
        self, metadata: CheckpointMetaData, metrics: CheckpointMetrics, snapshot: TaskStateSnapshot | None
    ) -> None:
        """Acknowledge."""
        self._responder.acknowledge_checkpoint(metadata.checkpoint_id, metrics, snapshot)

    def decline_checkpoint(self, checkpoint_id: int, cause: CheckpointException) -> None:
        """Decline."""
        self._responder.decline_checkpoint(checkpoint_id, cause)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Told always, even when the operators no longer are (C13)."""
        self.last_completed_id = checkpoint_id

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """The same."""
        self.last_aborted_id = checkpoint_id
