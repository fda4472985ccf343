"""A checkpoint from its request to its end: when it may start, which tasks have acknowledged, and finished tasks.

Answers to Flink's `CheckpointRequestDecider`, `PendingCheckpoint`, the finished half of `DefaultCheckpointPlan` and
`VertexFinishedStateChecker`. Invariant: every request is chosen once or fails once with a reason; a checkpoint that
was started ends once, complete or aborted (C34).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum
from itertools import count

from reference_impl.checkpoint_events import CheckpointException, CheckpointFailureReason
from reference_impl.checkpoints.task_state import OperatorSubtaskState, TaskStateSnapshot
from reference_impl.errors import StateError, WrongState
from reference_impl.job.completed_checkpoints import CompletedCheckpoint, OperatorState, StateHandle
from reference_impl.job.execution_graph import CheckpointPlan, ExecutionAttemptID, JobVertex
from reference_impl.job.messages import CheckpointProperties
from reference_impl.state.repartitioner import refuse_union_finished_in_part

__all__ = [
    "CheckpointRequestDecider",
    "CheckpointTriggerRequest",
    "PendingCheckpoint",
    "TaskAcknowledgeResult",
    "check_inputs_of_finished",
    "end_request",
]

MAX_QUEUED_REQUESTS = 1_000
"""Further requests are refused (C33)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CheckpointTriggerRequest:
    """A request for a checkpoint, by a user or by the periodic schedule. Compared by identity."""

    properties: CheckpointProperties
    timestamp_ms: int
    is_periodic: bool = False
    on_completion: Future[CompletedCheckpoint] = field(default_factory=Future)
    """Ends with the checkpoint; CheckpointException if it fails."""

    @property
    def urgency(self) -> tuple[bool, bool, bool, int]:
        """Sort key: savepoints first, then forced, then user requests; among equals the oldest first (C32)."""
        properties = self.properties
        return (not properties.is_savepoint, not properties.is_forced, self.is_periodic, self.timestamp_ms)

    def fail(self, reason: CheckpointFailureReason, detail: str = "") -> None:
        end_request(self.on_completion, CheckpointException(reason, detail))


def end_request(
    future: Future[CompletedCheckpoint], outcome: CompletedCheckpoint | CheckpointException
) -> None:
    """Set the outcome of a request, unless its future was cancelled."""
    if not future.set_running_or_notify_cancel():
        return
    if isinstance(outcome, CheckpointException):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


class CheckpointRequestDecider:
    """Queues requests, and decides which starts next and which fails. Mutable; `len` counts waiting requests.

    Answers to Flink's `CheckpointRequestDecider` and its `CheckpointTriggerRequest`. Invariant: every request is
    chosen once, or fails once with a reason.
    """

    def __init__(
        self,
        *,
        max_concurrent_checkpoints: int,
        min_pause_ms: int,
        now_ms: Callable[[], int],
        pending: Callable[[], int],
        cleaning: Callable[[], int],
        reschedule: Callable[[int], None],
        max_queued_requests: int = MAX_QUEUED_REQUESTS,
    ) -> None:
        self._max_concurrent = max_concurrent_checkpoints
        self._min_pause_ms = min_pause_ms
        self._now_ms = now_ms
        self._pending = pending
        self._cleaning = cleaning
        self._reschedule = reschedule
        self._max_queued = max_queued_requests
        self._number = count().__next__
        self._queue: list[tuple[tuple[bool, bool, bool, int], int, CheckpointTriggerRequest]] = []

    def __len__(self) -> int:
        return len(self._queue)

    def choose_request_to_execute(
        self, request: CheckpointTriggerRequest, *, is_triggering: bool, last_completion_ms: int | None
    ) -> CheckpointTriggerRequest | None:
        """Queue `request`, and return the request that may start now, if any."""
        if len(self._queue) >= self._max_queued and not self._queue[-1][-1].is_periodic:
            request.fail(CheckpointFailureReason.TOO_MANY_CHECKPOINT_REQUESTS, f"{len(self._queue)} wait")
            return None
        insort(self._queue, (request.urgency, self._number(), request))
        if len(self._queue) > self._max_queued:
            self._queue.pop()[-1].fail(
                CheckpointFailureReason.TOO_MANY_CHECKPOINT_REQUESTS, f"{self._max_queued} wait"
            )
        return self.choose_queued_request_to_execute(
            is_triggering=is_triggering, last_completion_ms=last_completion_ms
        )

    def choose_queued_request_to_execute(
        self, *, is_triggering: bool, last_completion_ms: int | None
    ) -> CheckpointTriggerRequest | None:
        """The request that may start now (C32); a periodic one that comes too early fails (C33)."""
        if is_triggering or not self._queue or self._cleaning() > self._max_concurrent:
            return None
        first = self._queue[0][-1]
        if self._pending() >= self._max_concurrent:
            return self._take() if first.properties.is_forced else None
        if first.is_periodic and not first.properties.is_forced and last_completion_ms is not None:
            wait_ms = last_completion_ms + self._min_pause_ms - self._now_ms()
            if wait_ms > 0:
                self._take().fail(
                    CheckpointFailureReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS, f"{wait_ms} ms are left"
                )
                self._reschedule(wait_ms)
                return None
        return self._take()

    def abort_all(self, reason: CheckpointFailureReason) -> None:
        """Fail all waiting requests."""
        queue, self._queue = self._queue, []
        for _, _, request in queue:
            request.fail(reason)

    def _take(self) -> CheckpointTriggerRequest:
        return self._queue.pop(0)[-1]


_NOTHING = OperatorSubtaskState()

Acknowledged = Mapping[ExecutionAttemptID, TaskStateSnapshot | None]


def operator_states_of(
    plan: CheckpointPlan, vertices: Mapping[str, JobVertex], acknowledged: Acknowledged
) -> dict[str, OperatorState]:
    """What a checkpoint holds of each operator, by id; StateError if finished tasks would leave gaps in it (C19).

    Answers to the finished half of Flink's `DefaultCheckpointPlan` and to its `VertexFinishedStateChecker`. Invariant:
    with union list state, a vertex of which only some tasks have finished completes no checkpoint: after a restore,
    the elements of the finished ones would be missing from every union (C19, FLINK-21080). Broadcast state needs no
    such rule: each remaining task has a full copy (S22, FLINK-23475).
    """
    states: dict[str, OperatorState] = {}
    for vertex in vertices.values():
        snapshots = {
            task.subtask: snapshot
            for task, snapshot in sorted(acknowledged.items())
            if task.vertex == vertex.name and snapshot is not None
        }
        _check_no_union_has_gaps(plan, vertex, snapshots)
        idle = [snapshot for snapshot in snapshots.values() if snapshot.is_task_deployed_as_finished]
        is_finished = len(idle) + len(_finished_subtasks(plan, vertex)) == vertex.parallelism
        for operator_id in vertex.operator_ids:
            states[operator_id] = _operator_state(
                operator_id, vertex, {} if is_finished else snapshots, is_finished=is_finished
            )
    return states


def check_inputs_of_finished(vertices: Mapping[str, JobVertex], states: Mapping[str, OperatorState]) -> None:
    """Refuse a vertex that had finished but reads one that had not: records would have no receiver."""
    finished = {
        vertex.name
        for vertex in vertices.values()
        if any(name in states and states[name].is_fully_finished for name in vertex.operator_ids)
    }
    for vertex in vertices.values():
        running = [name for name in vertex.inputs if name not in finished]
        if vertex.name in finished and running:
            raise StateError(
                f"vertex {vertex.name!r} had finished before the checkpoint, but its input {running[0]!r} had "
                "not; restore with the job graph that the checkpoint was taken with",
                operator=vertex.operator_ids[0],
            )


def _operator_state(
    operator_id: str, vertex: JobVertex, snapshots: Mapping[int, TaskStateSnapshot], *, is_finished: bool
) -> OperatorState:
    return OperatorState(
        operator_id=operator_id,
        parallelism=vertex.parallelism,
        max_parallelism=vertex.max_parallelism,
        subtask_states={
            subtask: snapshot.operator_states[operator_id]
            for subtask, snapshot in snapshots.items()
            if operator_id in snapshot.operator_states
        },
        is_fully_finished=is_finished,
    )


def _check_no_union_has_gaps(
    plan: CheckpointPlan, vertex: JobVertex, snapshots: Mapping[int, TaskStateSnapshot]
) -> None:
    subtasks = range(vertex.parallelism)
    is_gone = [subtask in _finished_subtasks(plan, vertex) for subtask in subtasks]
    is_done = [subtask in snapshots and snapshots[subtask].is_task_finished for subtask in subtasks]
    is_either = [gone or done for gone, done in zip(is_gone, is_done, strict=True)]
    for operator_id in vertex.operator_ids:
        states = [
            snapshots[subtask].operator_states.get(operator_id, _NOTHING)
            if subtask in snapshots
            else _NOTHING
            for subtask in subtasks
        ]
        handles = [state.managed_operator_state for state in states]
        for finished in (is_gone, is_either):
            refuse_union_finished_in_part(operator_id, handles, finished)


def _finished_subtasks(plan: CheckpointPlan, vertex: JobVertex) -> list[int]:
    return [task.subtask for task in plan.finished_tasks if task.vertex == vertex.name]


class TaskAcknowledgeResult(Enum):
    """The result of an acknowledgement (C34)."""

    SUCCESS = "success"
    DUPLICATE = "the task had acknowledged already"
    UNKNOWN = "the task is none that it waits for"
    DISCARDED = "the checkpoint had ended"


class PendingCheckpoint:
    """A checkpoint in progress: which tasks have acknowledged, and their state. Mutable until completed or aborted.

    Answers to Flink's `PendingCheckpoint` and its `TaskAcknowledgeResult`. Invariant: it ends once, complete or
    aborted; until then it holds each acknowledged state, which then passes to the completed checkpoint or is discarded
    by the caller (C34).
    """

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
        """Called once, when it ends, even if the future of the request was cancelled."""
        self._job_id = job_id
        self._vertices = dict(vertices)
        self._waiting = dict.fromkeys(plan.tasks_to_wait_for)
        self._acknowledged: dict[ExecutionAttemptID, TaskStateSnapshot | None] = {}
        self._is_disposed = False

    @property
    def is_fully_acknowledged(self) -> bool:
        """Whether all tasks have acknowledged."""
        return not self._waiting and not self._is_disposed

    @property
    def acknowledged(self) -> tuple[ExecutionAttemptID, ...]:
        """The tasks that have acknowledged, in that order."""
        return tuple(self._acknowledged)

    @property
    def handles(self) -> tuple[StateHandle, ...]:
        """The acknowledged states; tasks without state have none (C10)."""
        return tuple(
            StateHandle(checkpoint_id=self.checkpoint_id, task=task, snapshot=snapshot)
            for task, snapshot in self._acknowledged.items()
            if snapshot is not None
        )

    def is_waiting_for(self, task: ExecutionAttemptID) -> bool:
        """Whether the task has yet to acknowledge."""
        return task in self._waiting

    def acknowledge_task(
        self, task: ExecutionAttemptID, snapshot: TaskStateSnapshot | None
    ) -> TaskAcknowledgeResult:
        """Add a task's state; unless the result is SUCCESS, the caller keeps the state."""
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
        """The completed checkpoint, not yet durable; the pending one stays until `mark_completed` (C35).

        Raises StateError if union state would have gaps (C19).
        """
        if not self.is_fully_acknowledged:
            raise WrongState(
                f"checkpoint {self.checkpoint_id} has ended, or still waits for {list(map(str, self._waiting))}"
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
        """The checkpoint is durable: end, with success for the requester."""
        self._dispose()
        end_request(self.on_completion, completed)

    def abort(self, cause: CheckpointException) -> None:
        """End, with `cause` for the requester; the caller discards the handles (C36)."""
        self._dispose()
        end_request(self.on_completion, cause)

    def _dispose(self) -> None:
        self._is_disposed = True
        self.on_disposed()
