"""The job as its coordinator sees it: the current attempt of each subtask, and who takes part in a checkpoint.

Answers to Flink's `ExecutionGraph`, `JobVertex`, `ExecutionJobVertex` and `Execution`, and to its `CheckpointPlan`.
Invariant: a subtask has one current attempt; reports about earlier attempts are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from reference_impl.checkpoint_events import CheckpointException, CheckpointFailureReason

__all__ = [
    "CheckpointPlan",
    "CheckpointPlanCalculator",
    "ExecutionAttemptID",
    "ExecutionGraph",
    "ExecutionState",
    "JobVertex",
]


class ExecutionState(Enum):
    """The state of an attempt."""

    CREATED = "created"
    INITIALIZING = "initializing"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELED = "canceled"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobVertex:
    """A chain of operators, run by `parallelism` tasks, each of which reads all tasks of each vertex in `inputs`."""

    name: str
    operator_ids: tuple[str, ...]
    """From head to tail."""
    parallelism: int
    max_parallelism: int = 128
    inputs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.parallelism <= self.max_parallelism:
            raise ValueError(
                f"vertex {self.name!r} has parallelism {self.parallelism}; "
                f"give at least 1 and at most its maximum of {self.max_parallelism}"
            )


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ExecutionAttemptID:
    """Identifies one attempt of one subtask of a vertex."""

    vertex: str
    subtask: int
    attempt: int = 0

    def __str__(self) -> str:
        return f"{self.vertex}/{self.subtask}#{self.attempt}"


class ExecutionGraph:
    """The vertices of a job and the state of each current attempt. Mutable: updated by reports of tasks.

    Answers to Flink's `ExecutionGraph`, `JobVertex`, `ExecutionJobVertex` and `Execution`. Invariant: a subtask has
    one current attempt; reports about earlier attempts are ignored.
    """

    def __init__(self, vertices: Iterable[JobVertex]) -> None:
        self.vertices: dict[str, JobVertex] = {}
        """In topological order."""
        for vertex in vertices:
            self._add(vertex)
        self._attempt = 0
        self._states = self._created()

    def __iter__(self) -> Iterator[ExecutionAttemptID]:
        """The current attempts, in topological order."""
        return iter(list(self._states))

    def attempts(self, vertex: str) -> list[ExecutionAttemptID]:
        """The current attempts of a vertex's subtasks, in order."""
        return [attempt for attempt in self._states if attempt.vertex == vertex]

    def state(self, attempt: ExecutionAttemptID) -> ExecutionState | None:
        """The state of a current attempt; None for any other."""
        return self._states.get(attempt)

    def is_finished(self, vertex: str) -> bool:
        """Whether all its subtasks have finished."""
        return all(self._states[attempt] is ExecutionState.FINISHED for attempt in self.attempts(vertex))

    def update_state(self, attempt: ExecutionAttemptID, state: ExecutionState) -> bool:
        """Record what a task reports; if it is not a current attempt, ignore it and return False."""
        if attempt not in self._states:
            return False
        self._states[attempt] = state
        return True

    def restart(self, vertices: Iterable[JobVertex] | None = None) -> None:
        """Begin a new attempt of each subtask, of `vertices` if they have changed."""
        self._attempt += 1
        if vertices is not None:
            self.vertices.clear()
            for vertex in vertices:
                self._add(vertex)
        self._states = self._created()

    def _created(self) -> dict[ExecutionAttemptID, ExecutionState]:
        return {
            ExecutionAttemptID(
                vertex=vertex.name, subtask=subtask, attempt=self._attempt
            ): ExecutionState.CREATED
            for vertex in self.vertices.values()
            for subtask in range(vertex.parallelism)
        }

    def _add(self, vertex: JobVertex) -> None:
        missing = [name for name in vertex.inputs if name not in self.vertices]
        if missing:
            raise ValueError(f"vertex {vertex.name!r} reads {missing}, not given before it")
        if vertex.name in self.vertices:
            raise ValueError(f"two vertices are called {vertex.name!r}; give each its own name")
        self.vertices[vertex.name] = vertex


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPlan:
    """Which tasks are triggered, awaited and notified for a checkpoint, and which have finished.

    It is computed when a checkpoint is requested, and checked again when the checkpoint starts.

    Answers to Flink's `CheckpointPlan` and `DefaultCheckpointPlanCalculator`. Invariant: every task that has not
    finished is awaited, and is reached: it is triggered, or barriers reach it from a task that is.
    """

    tasks_to_trigger: tuple[ExecutionAttemptID, ...]
    """The tasks all of whose upstream tasks have finished; the others get barriers."""
    tasks_to_wait_for: tuple[ExecutionAttemptID, ...]
    tasks_to_commit_to: tuple[ExecutionAttemptID, ...]
    """The tasks that are notified of the checkpoint's end."""
    finished_tasks: tuple[ExecutionAttemptID, ...] = ()
    fully_finished_vertices: tuple[str, ...] = ()


class CheckpointPlanCalculator:
    """Computes the plan from the execution graph."""

    def __init__(self, graph: ExecutionGraph, *, allow_checkpoints_after_tasks_finished: bool = True) -> None:
        self._graph = graph
        self._allow_finished = allow_checkpoints_after_tasks_finished

    def calculate_checkpoint_plan(self) -> CheckpointPlan:
        """The plan for the current tasks; CheckpointException if one is neither running nor finished."""
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
        """Raise CheckpointException if a task has failed, finished or been replaced (FLINK-22087, FLINK-40482)."""
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
