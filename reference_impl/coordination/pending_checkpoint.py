"""A checkpoint under way: who has acknowledged, and what they wrote.

Answers to Flink's `PendingCheckpoint` and its `TaskAcknowledgeResult`. Invariant: it ends once, complete or aborted;
until then each acknowledged state is here, afterwards with the completed checkpoint or with whoever discards it (C34).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from enum import Enum

from reference_impl.checkpoint_failure import CheckpointException
from reference_impl.coordination.checkpoint_plan import CheckpointPlan
from reference_impl.coordination.checkpoint_properties import CheckpointProperties
from reference_impl.coordination.checkpoint_request_decider import end_request
from reference_impl.coordination.completed_checkpoint import CompletedCheckpoint, StateHandle
from reference_impl.coordination.execution_graph import ExecutionAttemptID, JobVertex
from reference_impl.coordination.finished_tasks import operator_states_of
from reference_impl.errors import WrongState
from reference_impl.snapshots.task_state_snapshot import TaskStateSnapshot

__all__ = ["PendingCheckpoint", "TaskAcknowledgeResult"]


class TaskAcknowledgeResult(Enum):
    """What became of an acknowledgement (C34)."""

    SUCCESS = "success"
    DUPLICATE = "the task had acknowledged already"
    UNKNOWN = "the task is none that it waits for"
    DISCARDED = "the checkpoint had ended"


class PendingCheckpoint:
    """Mutable: by what tasks acknowledge, until it is finalized or aborted."""

    def __init__(
        self,
        *,
        job_id: str,
        checkpoint_id: int,
        timestamp_ms: int,
        plan: CheckpointPlan,
        vertices: Mapping[str, JobVertex],
        properties: CheckpointProperties,
        on_completion: Future[CompletedCheckpoint],
        on_disposed: Callable[[], None] = lambda: None,
    ) -> None:
        self.checkpoint_id = checkpoint_id
        self.timestamp_ms = timestamp_ms
        self.plan = plan
        self.properties = properties
        self.on_completion = on_completion
        self.on_disposed = on_disposed
        """Told once, when it ends; whoever asked for it may have stopped listening long before."""
        self._job_id = job_id
        self._vertices = dict(vertices)
        self._waiting = dict.fromkeys(plan.tasks_to_wait_for)
        self._acknowledged: dict[ExecutionAttemptID, TaskStateSnapshot | None] = {}
        self._is_disposed = False

    @property
    def is_disposed(self) -> bool:
        """Whether it has ended, one way or the other."""
        return self._is_disposed

    @property
    def is_fully_acknowledged(self) -> bool:
        """Whether nobody is waited for any more."""
        return not self._waiting and not self._is_disposed

    @property
    def acknowledged(self) -> tuple[ExecutionAttemptID, ...]:
        """Those that have, in the order in which they did."""
        return tuple(self._acknowledged)

    @property
    def handles(self) -> tuple[StateHandle, ...]:
        """What was received; of a task without state nothing (C10)."""
        return tuple(
            StateHandle(checkpoint_id=self.checkpoint_id, task=task, snapshot=snapshot)
            for task, snapshot in self._acknowledged.items()
            if snapshot is not None
        )

    def is_waiting_for(self, task: ExecutionAttemptID) -> bool:
        """Whether it has yet to acknowledge."""
        return task in self._waiting

    def acknowledge_task(
        self, task: ExecutionAttemptID, snapshot: TaskStateSnapshot | None
    ) -> TaskAcknowledgeResult:
        """Take in a task's part; unless the answer is SUCCESS, it stays the caller's."""
        if self._is_disposed:
            return TaskAcknowledgeResult.DISCARDED
        if task in self._acknowledged:
            return TaskAcknowledgeResult.DUPLICATE
        if task not in self._waiting:
            return TaskAcknowledgeResult.UNKNOWN
        del self._waiting[task]
        self._acknowledged[task] = snapshot
        return TaskAcknowledgeResult.SUCCESS

    def finalize_checkpoint(self, *, now_ms: int) -> CompletedCheckpoint:
        """What it came to, not yet durable; it stays pending until `mark_completed` (C35).

        Raises StateError where the union of a state would have gaps (C19).
        """
        if not self.is_fully_acknowledged:
            raise WrongState(
                f"checkpoint {self.checkpoint_id} has ended, or waits for {list(map(str, self._waiting))}"
            )
        return CompletedCheckpoint(
            job_id=self._job_id,
            checkpoint_id=self.checkpoint_id,
            timestamp_ms=self.timestamp_ms,
            completion_timestamp_ms=now_ms,
            properties=self.properties,
            operator_states=operator_states_of(self.plan, self._vertices, self._acknowledged),
            handles=self.handles,
        )

    def mark_completed(self, completed: CompletedCheckpoint) -> None:
        """It is durable; whoever asked for it hears so."""
        self._dispose()
        end_request(self.on_completion, completed)

    def abort(self, cause: CheckpointException) -> None:
        """It will not complete; whoever asked for it hears why. Its handles are the caller's to discard (C36)."""
        self._dispose()
        end_request(self.on_completion, cause)

    def _dispose(self) -> None:
        self._is_disposed = True
        self.on_disposed()
