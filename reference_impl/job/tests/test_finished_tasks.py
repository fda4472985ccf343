"""Claims about plans with tasks that have finished, and about what their checkpoints may hold: C19."""

from __future__ import annotations

import pytest

from reference_impl.checkpoint_events import CheckpointException, CheckpointFailureReason
from reference_impl.checkpoints.task_state import FINISHED_ON_RESTORE, TaskStateSnapshot
from reference_impl.errors import StateError
from reference_impl.job.completed_checkpoints import OperatorState
from reference_impl.job.execution_graph import (
    CheckpointPlanCalculator,
    ExecutionGraph,
    ExecutionState,
    JobVertex,
)
from reference_impl.job.pending_checkpoint import check_inputs_of_finished
from reference_impl.job.tests.coordination_rig import TWO_VERTICES, open_coordinator, reason_of, some_state
from reference_impl.state.handles import Mode, OperatorStateHandle, OperatorStatePartitions

THREE_VERTICES = (
    JobVertex(name="a", operator_ids=("a",), parallelism=1),
    JobVertex(name="b", operator_ids=("b",), parallelism=1),
    JobVertex(name="join", operator_ids=("join",), parallelism=1, inputs=("a", "b")),
    JobVertex(name="sink", operator_ids=("sink",), parallelism=1, inputs=("join",)),
)


def operator_state(mode: Mode) -> OperatorStateHandle:
    return OperatorStateHandle(states={"list": OperatorStatePartitions(mode=mode, items=(b"1",))})


def test_a_task_whose_inputs_have_all_finished_is_triggered_itself_c19() -> None:
    graph = ExecutionGraph(THREE_VERTICES)
    a, b, join, sink = graph
    for task, state in ((a, "finished"), (b, "finished"), (join, "running"), (sink, "running")):
        graph.update_state(task, ExecutionState(state))

    plan = CheckpointPlanCalculator(graph).calculate_checkpoint_plan()

    assert plan.tasks_to_trigger == (join,)
    assert plan.tasks_to_wait_for == plan.tasks_to_commit_to == (join, sink)
    assert plan.finished_tasks == (a, b)
    assert plan.fully_finished_vertices == ("a", "b")


def test_a_task_with_one_input_that_runs_is_reached_by_its_barrier_c19() -> None:
    graph = ExecutionGraph(THREE_VERTICES)
    a, b, *others = graph
    graph.update_state(a, ExecutionState.FINISHED)
    for task in (b, *others):
        graph.update_state(task, ExecutionState.RUNNING)

    plan = CheckpointPlanCalculator(graph).calculate_checkpoint_plan()

    assert plan.tasks_to_trigger == (b,)


def test_where_checkpoints_after_the_end_are_not_allowed_a_finished_task_prevents_them_c19() -> None:
    graph = ExecutionGraph(THREE_VERTICES)
    for task in graph:
        graph.update_state(task, ExecutionState.RUNNING)
    graph.update_state(next(iter(graph)), ExecutionState.FINISHED)
    calculator = CheckpointPlanCalculator(graph, allow_checkpoints_after_tasks_finished=False)

    with pytest.raises(CheckpointException) as refused:
        calculator.calculate_checkpoint_plan()

    assert refused.value.reason is CheckpointFailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING


def test_an_operator_whose_tasks_have_all_finished_is_reported_so_c19() -> None:
    with open_coordinator() as rig:
        first, second, sink = rig.tasks
        rig.graph.update_state(first, ExecutionState.FINISHED)
        rig.graph.update_state(second, ExecutionState.FINISHED)

        rig.coordinator.trigger_checkpoint()
        rig.acknowledge(1, sink, state=some_state(operator="sink-op"))

        states = rig.storage.read(1).operator_states
        assert states["source-op"].is_fully_finished
        assert not states["sink-op"].is_fully_finished
        assert rig.told(sink)[0] == ("trigger", 1)


def test_a_task_deployed_as_finished_counts_like_one_that_has_c19() -> None:
    with open_coordinator() as rig:
        first, second, sink = rig.tasks
        rig.graph.update_state(first, ExecutionState.FINISHED)

        rig.coordinator.trigger_checkpoint()
        rig.acknowledge(1, second, state=FINISHED_ON_RESTORE)
        rig.acknowledge(1, sink)

        assert rig.storage.read(1).operator_states["source-op"].is_fully_finished


def test_a_job_whose_tasks_have_all_finished_completes_its_checkpoint_at_once_c19() -> None:
    with open_coordinator() as rig:
        for task in rig.tasks:
            rig.graph.update_state(task, ExecutionState.FINISHED)

        assert rig.coordinator.trigger_checkpoint().result(timeout=0).checkpoint_id == 1


@pytest.mark.parametrize("is_gone", [True, False])
def test_union_state_of_a_vertex_that_finished_in_part_is_refused_flink_21080_c19(
    is_gone: bool,  # noqa: FBT001
) -> None:
    """Whether a task is gone, or still runs and only its operators have finished."""
    with open_coordinator() as rig:
        first, second, sink = rig.tasks
        if is_gone:
            rig.graph.update_state(first, ExecutionState.FINISHED)

        asked = rig.coordinator.trigger_checkpoint()
        rig.acknowledge(1, first, state=TaskStateSnapshot(is_task_finished=True))
        rig.acknowledge(1, second, state=some_state(managed_operator_state=operator_state(Mode.UNION)))
        rig.acknowledge(1, sink)

        assert reason_of(asked) is CheckpointFailureReason.FINALIZE_CHECKPOINT_FAILURE
        assert "union" in str(asked.exception(timeout=0))
        assert "source-op" in str(asked.exception(timeout=0))
        assert len(rig.discarded) == 2


@pytest.mark.parametrize("mode", [Mode.BROADCAST, Mode.SPLIT_DISTRIBUTE])
def test_other_state_of_a_vertex_that_finished_in_part_is_kept_flink_23475_c19(mode: Mode) -> None:
    with open_coordinator() as rig:
        first, second, sink = rig.tasks
        rig.graph.update_state(first, ExecutionState.FINISHED)

        asked = rig.coordinator.trigger_checkpoint()
        rig.acknowledge(1, second, state=some_state(managed_operator_state=operator_state(mode)))
        rig.acknowledge(1, sink)

        assert list(asked.result(timeout=0).operator_states["source-op"].subtask_states) == [1]


def test_a_restore_where_a_finished_vertex_reads_one_that_runs_is_refused_c19() -> None:
    finished = OperatorState(operator_id="map-op", parallelism=1, max_parallelism=128, is_fully_finished=True)

    with pytest.raises(StateError, match="'map-op'.*'source' had not"):
        check_inputs_of_finished({vertex.name: vertex for vertex in TWO_VERTICES}, {"map-op": finished})
