"""A whole job in one thread: coordinator, tasks, the channels between them, and messages that may be lost or late.

Answers to Flink's `MiniCluster`, `DefaultScheduler` and `JobMaster`, as far as checkpoints go. Invariant: tasks and
coordinator communicate only by messages that `route` lets through, and by the storage; a failed task fails the job,
and a restart restores all tasks from one checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial

from reference_impl.checkpoint_events import CheckpointException, CheckpointFailureReason, CheckpointMetrics
from reference_impl.checkpoints.channel_state_writer import ChannelStateWriter
from reference_impl.checkpoints.channels import InputChannel, InputChannelInfo
from reference_impl.checkpoints.storage import RestorePolicy
from reference_impl.checkpoints.task_state import TaskStateSnapshot
from reference_impl.errors import OperatorError, SimulationStuck
from reference_impl.job.checkpoint_coordinator import CheckpointCoordinator, call_after_ms
from reference_impl.job.completed_checkpoints import (
    CheckpointMetadataStorage,
    CheckpointsCleaner,
    RecoveredCheckpoint,
    recovered_store,
)
from reference_impl.job.execution_graph import ExecutionAttemptID, ExecutionGraph, ExecutionState, JobVertex
from reference_impl.job.local_subtask import (
    BuildLinks,
    ChannelRecordWriter,
    ChannelSelector,
    LocalSubtask,
    SubtaskSurroundings,
)
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
from reference_impl.job.state_assignment import StateAssignmentOperation
from reference_impl.mailbox.loops import VirtualLoop

__all__ = ["LocalJob", "LocalVertex", "Message", "TaskKilled", "at_once"]

Message = ToTask | AcknowledgeCheckpoint | DeclineCheckpoint
"""A message between coordinator and tasks."""


def at_once(message: Message) -> Sequence[int]:  # noqa: ARG001 - other routes use it
    """The default route: each message arrives once, without delay."""
    return (0,)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalVertex:
    """A vertex of the job, and how its tasks are built."""

    vertex: JobVertex
    links: BuildLinks
    selector: Callable[[JobVertex], ChannelSelector] | None = None
    """Chooses the subtask for a record; None for a vertex without inputs."""

    def at(self, parallelism: int) -> LocalVertex:
        """The same vertex with another parallelism."""
        return replace(self, vertex=replace(self.vertex, parallelism=parallelism))


class TaskKilled(OperatorError):
    """The process of a task was killed."""


class LocalJob:
    """A job that can be started, run, failed and restarted. Mutable.

    `route` returns for each message the delays in ms after which a copy arrives. A new job with the same id, vertices
    and storage continues where this one was, as after a crash of all processes.
    """

    def __init__(
        self,
        vertices: Sequence[LocalVertex],
        *,
        job_id: str,
        loop: VirtualLoop,
        storage: CheckpointMetadataStorage,
        configuration: CheckpointCoordinatorConfiguration | None = None,
        route: Callable[[Message], Sequence[int]] = at_once,
        policy: RestorePolicy = RestorePolicy.NEWEST_ONLY,
        max_retained: int = 1,
    ) -> None:
        self.loop = loop
        self.failure: BaseException | None = None
        """The error that ended the current attempt, or None."""
        self.subtasks: dict[ExecutionAttemptID, LocalSubtask] = {}
        """The deployed subtasks, finished ones included."""
        self.job_id = job_id
        self._vertices = {vertex.vertex.name: vertex for vertex in vertices}
        self._configuration = configuration or CheckpointCoordinatorConfiguration()
        self._route = route
        self._policy = policy
        self.graph = ExecutionGraph([vertex.vertex for vertex in vertices])
        store, self._passed_over = recovered_store(storage, policy, max_retained=max_retained)
        self.coordinator = CheckpointCoordinator(
            job_id=job_id,
            configuration=self._configuration,
            loop=loop,
            graph=self.graph,
            send=self._send_to_task,
            store=store,
            cleaner=CheckpointsCleaner(executor=self._soon),
        )

    # ------------------------------------------------------------------------------------------------- its life

    def start(self) -> RecoveredCheckpoint:
        """Deploy all tasks, from the latest checkpoint if there is one; return that, and which could not be read."""
        recovered = self._restore({})
        return replace(recovered, passed_over=(*self._passed_over, *recovered.passed_over))

    def restart(self, parallelism: Mapping[str, int] | None = None) -> RecoveredCheckpoint:
        """Cancel all tasks and deploy again, with changed parallelism if given.

        If the checkpoint does not fit, an error is raised, and the job is unchanged except that its tasks are gone.
        """
        self._let_go()
        return self._restore(parallelism or {})

    def step(self, attempt: ExecutionAttemptID) -> bool:
        """Run one step of a task; return whether anything was done. An exception of the task fails the job."""
        subtask = self.subtasks.get(attempt)
        if subtask is None:
            return False
        try:
            has_done_something = subtask.step()
        except Exception as error:  # noqa: BLE001 - any exception fails the job
            subtask.fail(error)
            self._fail(attempt, error)
            return True
        if has_done_something and subtask.has_finished:
            self._finish(attempt)
        return has_done_something

    def turn(self) -> bool:
        """One step of each task, and due callbacks; advances time only if there is nothing else.

        Returns whether anything ran.
        """
        had_something_due = not self.loop.is_idle
        self.loop.run_ready()
        if self._step_each() or had_something_due:
            return True
        due_ms = self.loop.next_due_ms()
        if due_ms is None:
            return False
        self.loop.advance(due_ms)
        return True

    def _step_each(self) -> bool:
        has_done_something = False
        for attempt in list(self.subtasks):
            has_done_something |= self.step(attempt)
        return has_done_something

    def run_until(self, condition: Callable[[], bool], *, max_turns: int = 10_000) -> None:
        """Run until `condition` holds, the job fails, or it has finished."""
        for _ in range(max_turns):
            if condition() or self.failure is not None or self.has_finished:
                return
            if not self.turn():
                raise SimulationStuck(self.loop.now_ms(), [str(attempt) for attempt in self.subtasks])
        raise SimulationStuck(self.loop.now_ms(), [f"{max_turns} turns have not been enough"])

    def kill(self, attempt: ExecutionAttemptID) -> None:
        """Kill the process of a task: nothing is closed, and the job fails."""
        subtask = self.subtasks.pop(attempt)
        subtask.abandon()
        self._fail(attempt, TaskKilled(f"{attempt} was killed"))

    @property
    def has_finished(self) -> bool:
        """Whether all tasks have finished."""
        return bool(self.subtasks) and all(subtask.has_finished for subtask in self.subtasks.values())

    def _finish(self, attempt: ExecutionAttemptID) -> None:
        self.graph.update_state(attempt, ExecutionState.FINISHED)
        self.coordinator.fail_unacknowledged_pending_checkpoints_for(
            attempt, reason=CheckpointFailureReason.CHECKPOINT_DECLINED_TASK_CLOSING
        )
        if self.has_finished:
            self.coordinator.stop_checkpoint_scheduler()

    def _fail(self, attempt: ExecutionAttemptID, error: BaseException) -> None:
        self.graph.update_state(attempt, ExecutionState.FAILED)
        self.coordinator.fail_unacknowledged_pending_checkpoints_for(attempt, error)
        self.subtasks.pop(attempt, None)
        self.failure = error
        self._let_go()

    def _let_go(self) -> None:
        """Cancel the remaining tasks, and stop periodic checkpoints."""
        self.coordinator.stop_checkpoint_scheduler()
        subtasks, self.subtasks = self.subtasks, {}
        for subtask in subtasks.values():
            if not subtask.has_finished:
                subtask.cancel()

    # --------------------------------------------------------------------------------------------- how it is built

    def _restore(self, parallelism: Mapping[str, int]) -> RecoveredCheckpoint:
        vertices = {
            name: vertex.at(parallelism.get(name, vertex.vertex.parallelism))
            for name, vertex in self._vertices.items()
        }
        recovered = self.coordinator.restore_latest_checkpointed_state(self._policy)
        assigned: Mapping[tuple[str, int], TaskStateSnapshot | None] = {}
        if recovered.checkpoint is not None:
            assigned = StateAssignmentOperation(
                checkpoint=recovered.checkpoint, vertices=[each.vertex for each in vertices.values()]
            ).assign_states()
        self._vertices, self.failure = vertices, None
        self.graph.restart([each.vertex for each in vertices.values()])
        self._deploy(assigned, recovered.checkpoint_id)
        self.coordinator.start_checkpoint_scheduler()
        return recovered

    def _deploy(
        self, assigned: Mapping[tuple[str, int], TaskStateSnapshot | None], checkpoint_id: int | None
    ) -> None:
        """Readers are restored before writers, so that restored in-flight data come first in the channels (M46)."""
        network = _Network(self.graph)
        for attempt in self.graph:
            restored = assigned.get((attempt.vertex, attempt.subtask))
            self.subtasks[attempt] = LocalSubtask(self._around(attempt, network, restored, checkpoint_id))
        for attempt in reversed(list(self.graph)):
            self.graph.update_state(attempt, ExecutionState.INITIALIZING)
            self.subtasks[attempt].task.restore()
            self.graph.update_state(attempt, ExecutionState.RUNNING)

    def _around(
        self,
        attempt: ExecutionAttemptID,
        network: _Network,
        restored: TaskStateSnapshot | None,
        checkpoint_id: int | None,
    ) -> SubtaskSurroundings:
        readers = [
            (vertex.selector(vertex.vertex), network.channels_from(attempt, name))
            for name, vertex in self._vertices.items()
            if attempt.vertex in vertex.vertex.inputs and vertex.selector is not None
        ]
        return SubtaskSurroundings(
            attempt=attempt,
            vertex=self.graph.vertices[attempt.vertex],
            loop=self.loop,
            links=self._vertices[attempt.vertex].links,
            restored=restored,
            restored_checkpoint_id=checkpoint_id,
            gates=network.gates[attempt],
            channel_state_writer=network.writers[attempt],
            record_writer=ChannelRecordWriter(readers),
            responder=_Responder(self, attempt),
            executor=self._soon,
            await_finished=self._await_finished,
            is_exactly_once=self._configuration.is_exactly_once,
            checkpoints_after_tasks_finish=self._configuration.allow_checkpoints_after_tasks_finished,
        )

    def _soon(self, action: Callable[[], None]) -> None:
        self.loop.call_soon(action)

    def _await_finished(self, futures: Sequence[Future[None]]) -> None:
        while not all(future.done() for future in futures):
            self.loop.run_ready()

    # ------------------------------------------------------------------------------------------------- messages

    def send_to_coordinator(self, message: AcknowledgeCheckpoint | DeclineCheckpoint) -> None:
        """Send along the route."""
        deliver = self._tell_coordinator
        for delay_ms in self._route(message):
            call_after_ms(self.loop, delay_ms, partial(deliver, message))

    def _tell_coordinator(self, message: AcknowledgeCheckpoint | DeclineCheckpoint) -> None:
        if isinstance(message, AcknowledgeCheckpoint):
            self.coordinator.receive_acknowledge_message(message)
        else:
            self.coordinator.receive_decline_message(message)

    def _send_to_task(self, attempt: ExecutionAttemptID, message: ToTask) -> None:
        for delay_ms in self._route(message):
            call_after_ms(self.loop, delay_ms, partial(self._tell_task, attempt, message))

    def _tell_task(self, attempt: ExecutionAttemptID, message: ToTask) -> None:
        """Without effect if the task has ended."""
        subtask = self.subtasks.get(attempt)
        if subtask is None or subtask.has_finished:
            return
        task = subtask.task
        match message:
            case TriggerCheckpoint():
                task.trigger_checkpoint_async(message.metadata, message.options)
            case NotifyCheckpointComplete():
                task.notify_checkpoint_complete_async(message.checkpoint_id)
            case NotifyCheckpointAborted():
                task.notify_checkpoint_abort_async(message.checkpoint_id, message.latest_completed_id)
            case NotifyCheckpointSubsumed():
                task.notify_checkpoint_subsumed_async(message.checkpoint_id)


class _Network:
    """The channels between the tasks of a graph, by reader."""

    def __init__(self, graph: ExecutionGraph) -> None:
        self._graph = graph
        self.writers = {attempt: ChannelStateWriter() for attempt in graph}
        self.gates = {
            attempt: [
                [
                    InputChannel(InputChannelInfo(gate, writer.subtask), writer=self.writers[attempt])
                    for writer in graph.attempts(name)
                ]
                for gate, name in enumerate(graph.vertices[attempt.vertex].inputs)
            ]
            for attempt in graph
        }

    def channels_from(self, writer: ExecutionAttemptID, reader: str) -> list[InputChannel]:
        """The channels from `writer` to the subtasks of `reader`, in order."""
        gate = self._graph.vertices[reader].inputs.index(writer.vertex)
        return [self.gates[attempt][gate][writer.subtask] for attempt in self._graph.attempts(reader)]


class _Responder:
    """Sends a task's answers to the coordinator."""

    def __init__(self, job: LocalJob, attempt: ExecutionAttemptID) -> None:
        self._job = job
        self._attempt = attempt

    def acknowledge_checkpoint(
        self, checkpoint_id: int, metrics: CheckpointMetrics, snapshot: TaskStateSnapshot | None
    ) -> None:
        self._job.send_to_coordinator(
            AcknowledgeCheckpoint(
                job_id=self._job.job_id,
                checkpoint_id=checkpoint_id,
                task=self._attempt,
                state=snapshot,
                metrics=metrics,
            )
        )

    def decline_checkpoint(self, checkpoint_id: int, cause: CheckpointException) -> None:
        self._job.send_to_coordinator(
            DeclineCheckpoint(
                job_id=self._job.job_id, checkpoint_id=checkpoint_id, task=self._attempt, cause=cause
            )
        )
