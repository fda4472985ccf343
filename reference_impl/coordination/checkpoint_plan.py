"""Who takes part in a checkpoint: whom to trigger, whom to wait for, whom to tell, and who has finished.

Answers to Flink's `CheckpointPlan` and `DefaultCheckpointPlanCalculator`. Invariant: every task that has not finished
is waited for, and is reached: it is triggered itself, or reads from one that is.
"""

from __future__ import annotations

from dataclasses import dataclass

from reference_impl.checkpoint_failure import CheckpointException, CheckpointFailureReason
from reference_impl.coordination.execution_graph import ExecutionAttemptID, ExecutionGraph, ExecutionState

__all__ = ["CheckpointPlan", "CheckpointPlanCalculator"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPlan:
    """Made when a checkpoint is asked for, and checked once more when it starts."""

    tasks_to_trigger: tuple[ExecutionAttemptID, ...]
    """Those that have no upstream task left that runs: barriers come to the others from them."""
    tasks_to_wait_for: tuple[ExecutionAttemptID, ...]
    tasks_to_commit_to: tuple[ExecutionAttemptID, ...]
    """Those that hear how it ended."""
    finished_tasks: tuple[ExecutionAttemptID, ...] = ()
    fully_finished_vertices: tuple[str, ...] = ()


class CheckpointPlanCalculator:
    """Reads the plan off the execution graph."""

    def __init__(self, graph: ExecutionGraph, *, allow_checkpoints_after_tasks_finished: bool = True) -> None:
        self._graph = graph
        self._allow_finished = allow_checkpoints_after_tasks_finished

    def calculate_checkpoint_plan(self) -> CheckpointPlan:
        """Of the tasks as they are now; a CheckpointException if one is neither running nor finished."""
        finished = tuple(task for task in self._graph if self._is_finished(task))
        if finished and not self._allow_finished:
            raise CheckpointException(
                CheckpointFailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING,
                f"{finished[0]} has finished, and checkpoints after that are not allowed",
            )
        running = tuple(task for task in self._graph if not self._is_finished(task))
        for task in running:
            self._check_runs(task)
        return CheckpointPlan(
            tasks_to_trigger=tuple(task for task in running if self._has_no_running_input(task)),
            tasks_to_wait_for=running,
            tasks_to_commit_to=running,
            finished_tasks=finished,
            fully_finished_vertices=tuple(
                name for name in self._graph.vertices if self._graph.is_finished(name)
            ),
        )

    def check_still_holds(self, plan: CheckpointPlan) -> None:
        """A CheckpointException if a task failed, finished or was replaced since (FLINK-22087, FLINK-40482)."""
        for task in plan.tasks_to_wait_for:
            self._check_runs(task)

    def _is_finished(self, task: ExecutionAttemptID) -> bool:
        return self._graph.state(task) is ExecutionState.FINISHED

    def _has_no_running_input(self, task: ExecutionAttemptID) -> bool:
        inputs = self._graph.vertices[task.vertex].inputs
        return all(self._graph.is_finished(vertex) for vertex in inputs)

    def _check_runs(self, task: ExecutionAttemptID) -> None:
        state = self._graph.state(task)
        if state is not ExecutionState.RUNNING:
            doing = "replaced by another attempt" if state is None else state.value
            raise CheckpointException(
                CheckpointFailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING, f"{task} is {doing}, not running"
            )
