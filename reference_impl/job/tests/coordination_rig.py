"""The bench for the coordinator alone: tasks are what a test says they are, messages lie in a list.

Answers to Flink's `CheckpointCoordinatorTestingUtils`. Invariant: nothing is sent but into `sent`, nothing is discarded
but into `discarded`, and time stands unless a test moves it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from reference_impl.checkpoint_events import CheckpointException, CheckpointFailureReason, CheckpointListener
from reference_impl.checkpoints.task_state import OperatorSubtaskState, TaskStateSnapshot
from reference_impl.job.checkpoint_coordinator import CheckpointCoordinator
from reference_impl.job.completed_checkpoints import (
    CheckpointsCleaner,
    CompletedCheckpoint,
    CompletedCheckpointStore,
    Executor,
    MemoryCheckpointStorage,
    StateHandle,
)
from reference_impl.job.execution_graph import ExecutionAttemptID, ExecutionGraph, ExecutionState, JobVertex
from reference_impl.job.messages import (
    AcknowledgeCheckpoint,
    CheckpointCoordinatorConfiguration,
    DeclineCheckpoint,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    NotifyCheckpointSubsumed,
    ToTask,
    TriggerCheckpoint,
)
from reference_impl.mailbox.loops import VirtualLoop, virtual_loop

__all__ = ["JOB", "TWO_VERTICES", "CoordinatorRig", "open_coordinator", "reason_of", "some_state"]

JOB = "job"

TWO_VERTICES = (
    JobVertex(name="source", operator_ids=("source-op",), parallelism=2),
    JobVertex(name="sink", operator_ids=("map-op", "sink-op"), parallelism=1, inputs=("source",)),
)


def some_state(*, operator: str = "source-op", **fields: Any) -> TaskStateSnapshot:
    """The snapshot of a task whose one operator has some."""
    state = OperatorSubtaskState(**(fields or {"raw_operator_state": [1]}))
    return TaskStateSnapshot(operator_states={operator: state})


def reason_of(future: Future[CompletedCheckpoint]) -> CheckpointFailureReason | None:
    """Why it failed; None if it has not ended, or ended well."""
    error = future.exception(timeout=0) if future.done() else None
    return error.reason if isinstance(error, CheckpointException) else None


class CoordinatorRig:
    """A coordinator, and all that it touches. Mutable."""

    def __init__(
        self,
        loop: VirtualLoop,
        *,
        vertices: Sequence[JobVertex] = TWO_VERTICES,
        max_retained: int = 1,
        storage: MemoryCheckpointStorage | None = None,
        executor: Executor = lambda action: action(),
        cleaning: Executor = lambda action: action(),
        coordinators: Sequence[CheckpointListener] = (),
        **configuration: Any,
    ) -> None:
        self.loop = loop
        self.graph = ExecutionGraph(vertices)
        self.storage = storage or MemoryCheckpointStorage()
        self.store = CompletedCheckpointStore(storage=self.storage, max_retained=max_retained)
        self.sent: list[tuple[ExecutionAttemptID, ToTask]] = []
        self.discarded: list[StateHandle] = []
        self.cleaner = CheckpointsCleaner(executor=cleaning, discard=self.discarded.append)
        self.on_send: Callable[[ExecutionAttemptID, ToTask], None] = lambda task, message: None
        self.coordinator = CheckpointCoordinator(
            job_id=JOB,
            configuration=CheckpointCoordinatorConfiguration(**configuration),
            loop=loop,
            graph=self.graph,
            send=self._send,
            store=self.store,
            cleaner=self.cleaner,
            executor=executor,
            coordinators=coordinators,
        )
        for task in self.graph:
            self.graph.update_state(task, ExecutionState.RUNNING)

    @property
    def tasks(self) -> list[ExecutionAttemptID]:
        """The current attempts, in topological order."""
        return list(self.graph)

    @property
    def pending(self) -> list[int]:
        """The numbers of those under way."""
        return list(self.coordinator.pending_checkpoints)

    @property
    def completed(self) -> list[int]:
        """The numbers of those that are kept."""
        return [checkpoint.checkpoint_id for checkpoint in self.store]

    def advance(self, to_ms: int) -> None:
        """Let it be `to_ms`, and run what falls due at each instant."""
        while (due_ms := self.loop.next_due_ms()) is not None and due_ms <= to_ms:
            self.loop.advance(due_ms)
            self.loop.run_ready()
        self.loop.advance(to_ms)
        self.loop.run_ready()

    def acknowledge(
        self,
        checkpoint_id: int,
        *tasks: ExecutionAttemptID,
        state: TaskStateSnapshot | None = None,
        job_id: str = JOB,
    ) -> list[bool]:
        """Each task acknowledges, all if none is named; what the coordinator answers."""
        return [
            self.coordinator.receive_acknowledge_message(
                AcknowledgeCheckpoint(job_id=job_id, checkpoint_id=checkpoint_id, task=task, state=state)
            )
            for task in tasks or self.tasks
        ]

    def decline(
        self,
        checkpoint_id: int,
        task: ExecutionAttemptID,
        reason: CheckpointFailureReason = CheckpointFailureReason.CHECKPOINT_DECLINED,
        *,
        job_id: str = JOB,
    ) -> None:
        """A task declines."""
        self.coordinator.receive_decline_message(
            DeclineCheckpoint(
                job_id=job_id, checkpoint_id=checkpoint_id, task=task, cause=CheckpointException(reason)
            )
        )

    def told(self, task: ExecutionAttemptID) -> list[tuple[str, int]]:
        """What was sent to a task, each as a word and the checkpoint's number."""
        return [_short(message) for receiver, message in self.sent if receiver == task]

    def _send(self, task: ExecutionAttemptID, message: ToTask) -> None:
        self.sent.append((task, message))
        self.on_send(task, message)


def _short(message: ToTask) -> tuple[str, int]:
    match message:
        case TriggerCheckpoint():
            return "trigger", message.metadata.checkpoint_id
        case NotifyCheckpointComplete():
            return "complete", message.checkpoint_id
        case NotifyCheckpointAborted():
            return "aborted", message.checkpoint_id
        case NotifyCheckpointSubsumed():
            return "subsumed", message.checkpoint_id


@contextmanager
def open_coordinator(**settings: Any) -> Iterator[CoordinatorRig]:
    """A rig in virtual time, all tasks running."""
    with virtual_loop() as loop:
        yield CoordinatorRig(loop, **settings)
