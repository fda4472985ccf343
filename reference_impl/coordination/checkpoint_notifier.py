"""What the coordinator tells the tasks of a checkpoint, and in which order.

Answers to `triggerTasks`, `sendAcknowledgeMessages` and `sendAbortedMessages` of Flink's `CheckpointCoordinator`.
Invariant: of one checkpoint a task is told that it completed, or that it was aborted, never both (C39); first the
tasks, then the coordinators of operators (C35).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reference_impl.checkpoint_listener import CheckpointListener
from reference_impl.checkpoint_metadata import CheckpointMetaData
from reference_impl.checkpoint_options import CheckpointOptions
from reference_impl.coordination.checkpoint_messages import (
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    NotifyCheckpointSubsumed,
    ToTask,
    TriggerCheckpoint,
)
from reference_impl.coordination.checkpoint_plan import CheckpointPlan
from reference_impl.coordination.execution_graph import ExecutionAttemptID

__all__ = ["CheckpointNotifier"]


class CheckpointNotifier:
    """`send` carries a message to a task, or loses it."""

    def __init__(
        self,
        *,
        send: Callable[[ExecutionAttemptID, ToTask], None],
        coordinators: Sequence[CheckpointListener] = (),
    ) -> None:
        self._send = send
        self._coordinators = coordinators

    def trigger(self, plan: CheckpointPlan, metadata: CheckpointMetaData, options: CheckpointOptions) -> None:
        """Barriers carry it from those that are triggered to the others."""
        for task in plan.tasks_to_trigger:
            self._send(task, TriggerCheckpoint(metadata=metadata, options=options))

    def complete(self, plan: CheckpointPlan, checkpoint_id: int, *, subsumed_id: int | None) -> None:
        """It is durable; and `subsumed_id`, with all before it, is no longer kept (C13)."""
        for task in plan.tasks_to_commit_to:
            self._send(task, NotifyCheckpointComplete(checkpoint_id=checkpoint_id))
            if subsumed_id is not None:
                self._send(task, NotifyCheckpointSubsumed(checkpoint_id=subsumed_id))
        for coordinator in self._coordinators:
            coordinator.notify_checkpoint_complete(checkpoint_id)

    def aborted(self, plan: CheckpointPlan, checkpoint_id: int, *, latest_completed_id: int) -> None:
        """It never will be; the latest that is goes with the message, for that one's may have been lost (C14)."""
        for task in plan.tasks_to_commit_to:
            self._send(
                task,
                NotifyCheckpointAborted(checkpoint_id=checkpoint_id, latest_completed_id=latest_completed_id),
            )
        for coordinator in self._coordinators:
            coordinator.notify_checkpoint_aborted(checkpoint_id)
