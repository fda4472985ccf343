"""What a checkpoint says of tasks that had finished by then: which is fully, and which must not be partly.

Answers to the finished half of Flink's `DefaultCheckpointPlan` and to its `VertexFinishedStateChecker`. Invariant:
a vertex that finished in part never completes a checkpoint with union list state: the elements of those that finished
would be missing from everybody's union after a restore (C19, FLINK-21080). Broadcast state needs no such rule: whoever
still reports has a whole copy (S22, FLINK-23475).
"""

from __future__ import annotations

from collections.abc import Mapping

from reference_impl.coordination.checkpoint_plan import CheckpointPlan
from reference_impl.coordination.completed_checkpoint import OperatorState
from reference_impl.coordination.execution_graph import ExecutionAttemptID, JobVertex
from reference_impl.errors import StateError
from reference_impl.snapshots.task_state_snapshot import OperatorSubtaskState, TaskStateSnapshot
from reference_impl.state.round_robin_operator_state_repartitioner import refuse_union_finished_in_part

__all__ = ["check_inputs_of_finished", "operator_states_of"]

_NOTHING = OperatorSubtaskState()

Acknowledged = Mapping[ExecutionAttemptID, TaskStateSnapshot | None]


def operator_states_of(
    plan: CheckpointPlan, vertices: Mapping[str, JobVertex], acknowledged: Acknowledged
) -> dict[str, OperatorState]:
    """What a checkpoint holds of each operator, by its id; StateError if it must not be (C19)."""
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
    """A vertex that the checkpoint says has finished reads only such as have: else its records would find nobody."""
    finished = {
        vertex.name
        for vertex in vertices.values()
        if any(name in states and states[name].is_fully_finished for name in vertex.operator_ids)
    }
    for vertex in vertices.values():
        running = [name for name in vertex.inputs if name not in finished]
        if vertex.name in finished and running:
            raise StateError(
                f"its vertex {vertex.name!r} had finished by the checkpoint, but that one's input {running[0]!r} had "
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
