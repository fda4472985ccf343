"""The checkpoint coordinator: triggers checkpoints, collects acknowledgements, completes or aborts each checkpoint.

Answers to Flink's `CheckpointCoordinator`, with its timer and its messages to tasks as classes of their own.
Invariant: each triggered checkpoint ends once, complete or aborted with a reason; a task is notified of the completion
only when it is durable, and never of both ends (C35, C36).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial

from reference_impl.checkpoint_events import (
    CheckpointException,
    CheckpointFailureReason,
    CheckpointListener,
    CheckpointMetaData,
    CheckpointOptions,
    SnapshotType,
)
from reference_impl.checkpoints.storage import RestorePolicy
from reference_impl.job.completed_checkpoints import (
    RECENT_CHECKPOINTS,
    CheckpointsCleaner,
    CompletedCheckpoint,
    CompletedCheckpointStore,
    Executor,
    RecoveredCheckpoint,
    StateHandle,
    read_latest,
)
from reference_impl.job.execution_graph import (
    CheckpointPlan,
    CheckpointPlanCalculator,
    ExecutionAttemptID,
    ExecutionGraph,
)
from reference_impl.job.messages import (
    AcknowledgeCheckpoint,
    CheckpointCoordinatorConfiguration,
    CheckpointProperties,
    DeclineCheckpoint,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    NotifyCheckpointSubsumed,
    ToTask,
    TriggerCheckpoint,
)
from reference_impl.job.pending_checkpoint import (
    CheckpointRequestDecider,
    CheckpointTriggerRequest,
    PendingCheckpoint,
    TaskAcknowledgeResult,
    end_request,
)
from reference_impl.mailbox.loops import NS_PER_MS, Handle, call_at_ns, clock_of, now_ms

__all__ = ["CheckpointCoordinator", "call_after_ms"]


def call_after_ms(
    loop: asyncio.AbstractEventLoop, delay_ms: int, callback: Callable[[], None]
) -> asyncio.Handle | Handle:
    """Run `callback` on the loop after `delay_ms`."""
    return call_at_ns(loop, clock_of(loop)() + delay_ms * NS_PER_MS, callback)


class CheckpointScheduler:
    """The timer of periodic checkpoints, at a fixed rate. Mutable.

    Answers to the `ScheduledTrigger` and the timer of Flink's `CheckpointCoordinator`. Invariant: at most one tick is
    scheduled, and none after `stop`.
    """

    def __init__(
        self, *, loop: asyncio.AbstractEventLoop, interval_ms: int, tick: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._interval_ms = interval_ms
        self._tick = tick
        self._next: asyncio.Handle | Handle | None = None

    @property
    def is_started(self) -> bool:
        return self._next is not None

    def start(self, delay_ms: int) -> None:
        """Tick after `delay_ms` and then at each interval; restarts a running timer."""
        self.stop()
        self._next = call_after_ms(self._loop, delay_ms, self._on_tick)

    def reschedule(self, delay_ms: int) -> None:
        """Move the next tick; without effect if the timer is stopped (C33)."""
        if self.is_started:
            self.start(delay_ms)

    def stop(self) -> None:
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _on_tick(self) -> None:
        self._next = call_after_ms(self._loop, self._interval_ms, self._on_tick)
        self._tick()


class CheckpointNotifier:
    """Sends the coordinator's messages about a checkpoint to tasks and operator coordinators.

    `send` delivers a message to a task, or loses it.

    Answers to `triggerTasks`, `sendAcknowledgeMessages` and `sendAbortedMessages` of Flink's `CheckpointCoordinator`.
    Invariant: a task is notified that a checkpoint completed or that it was aborted, never both (C39); tasks are
    notified before operator coordinators (C35).
    """

    def __init__(
        self,
        *,
        send: Callable[[ExecutionAttemptID, ToTask], None],
        coordinators: Sequence[CheckpointListener] = (),
    ) -> None:
        self._send = send
        self._coordinators = coordinators

    def trigger(self, plan: CheckpointPlan, metadata: CheckpointMetaData, options: CheckpointOptions) -> None:
        """Trigger the tasks of the plan; barriers reach the others."""
        for task in plan.tasks_to_trigger:
            self._send(task, TriggerCheckpoint(metadata=metadata, options=options))

    def complete(self, plan: CheckpointPlan, checkpoint_id: int, *, subsumed_id: int | None) -> None:
        """Notify the completion, and that `subsumed_id` and older checkpoints are no longer kept (C13)."""
        for task in plan.tasks_to_commit_to:
            self._send(task, NotifyCheckpointComplete(checkpoint_id=checkpoint_id))
            if subsumed_id is not None:
                self._send(task, NotifyCheckpointSubsumed(checkpoint_id=subsumed_id))
        for coordinator in self._coordinators:
            coordinator.notify_checkpoint_complete(checkpoint_id)

    def aborted(self, plan: CheckpointPlan, checkpoint_id: int, *, latest_completed_id: int) -> None:
        """Notify the abort, with the latest completed checkpoint, whose notification may have been lost (C14)."""
        for task in plan.tasks_to_commit_to:
            self._send(
                task,
                NotifyCheckpointAborted(checkpoint_id=checkpoint_id, latest_completed_id=latest_completed_id),
            )
        for coordinator in self._coordinators:
            coordinator.notify_checkpoint_aborted(checkpoint_id)


class CheckpointCoordinator:
    """Triggers checkpoints, collects acknowledgements, completes or aborts each checkpoint of one job. Mutable.

    Used on its loop's thread only. `executor` runs the preparation of a checkpoint, now or later.

    Answers to Flink's `CheckpointCoordinator`. Invariant: each triggered checkpoint ends once, complete or aborted
    with a reason; a task is notified of the completion only when it is durable, and never of both ends (C35, C36).

    Differences from Flink: checkpoints share no state, so there is no registry of shared state. Savepoints are put
    into the store, as C37 says; since 1.15, Flink does not.
    """

    def __init__(
        self,
        *,
        job_id: str,
        configuration: CheckpointCoordinatorConfiguration,
        loop: asyncio.AbstractEventLoop,
        graph: ExecutionGraph,
        send: Callable[[ExecutionAttemptID, ToTask], None],
        store: CompletedCheckpointStore,
        cleaner: CheckpointsCleaner,
        executor: Executor = lambda action: action(),
        coordinators: Sequence[CheckpointListener] = (),
        first_checkpoint_id: int = 1,
    ) -> None:
        self.store = store
        self.pending_checkpoints: dict[int, PendingCheckpoint] = {}
        """Checkpoints in progress, by id."""
        self._job_id = job_id
        self._configuration = configuration
        self._loop = loop
        self._graph = graph
        self._plans = CheckpointPlanCalculator(
            graph,
            allow_checkpoints_after_tasks_finished=configuration.allow_checkpoints_after_tasks_finished,
        )
        self._notifier = CheckpointNotifier(send=send, coordinators=coordinators)
        self._cleaner = cleaner
        self._executor = executor
        self._next_id = max(first_checkpoint_id, store.latest_checkpoint_id + 1)
        self._last_completion_ms: int | None = None
        self._is_triggering = False
        self._is_choosing = False
        self._is_shut_down = False
        self._recent: deque[int] = deque(maxlen=RECENT_CHECKPOINTS)
        """Ids of ended checkpoints; messages for them are late, not unknown."""
        self._scheduler = CheckpointScheduler(
            loop=loop, interval_ms=configuration.checkpoint_interval_ms or 1, tick=self._on_tick
        )
        self._decider = CheckpointRequestDecider(
            max_concurrent_checkpoints=configuration.max_concurrent_checkpoints,
            min_pause_ms=configuration.min_pause_between_checkpoints_ms,
            now_ms=partial(now_ms, loop),
            pending=lambda: len(self.pending_checkpoints),
            cleaning=lambda: cleaner.number_of_checkpoints_to_clean,
            reschedule=self._scheduler.reschedule,
            max_queued_requests=configuration.max_queued_requests,
        )
        cleaner.on_cleaned = self._start_queued

    # ------------------------------------------------------------------------------------------ who asks for one

    @property
    def is_periodic_checkpointing_started(self) -> bool:
        return self._scheduler.is_started

    def start_checkpoint_scheduler(self) -> None:
        """Start periodic checkpoints, if they are configured."""
        interval_ms = self._configuration.checkpoint_interval_ms
        if interval_ms is not None and not self._is_shut_down:
            initial_ms = self._configuration.initial_delay_ms
            self._scheduler.start(interval_ms if initial_ms is None else initial_ms)

    def stop_checkpoint_scheduler(self) -> None:
        """Stop periodic checkpoints; abort pending ones and fail waiting requests."""
        self._scheduler.stop()
        self._decider.abort_all(CheckpointFailureReason.CHECKPOINT_COORDINATOR_SUSPEND)
        self.abort_pending_checkpoints(
            CheckpointException(CheckpointFailureReason.CHECKPOINT_COORDINATOR_SUSPEND)
        )

    def trigger_checkpoint(
        self, *, is_periodic: bool = False, is_forced: bool = False
    ) -> Future[CompletedCheckpoint]:
        """Request a checkpoint; the future ends with it."""
        return self._request(CheckpointProperties(is_forced=is_forced), is_periodic=is_periodic)

    def trigger_savepoint(self) -> Future[CompletedCheckpoint]:
        """Request a savepoint."""
        return self._request(self._savepoint(SnapshotType.SAVEPOINT))

    def trigger_synchronous_savepoint(self, *, terminate: bool) -> Future[CompletedCheckpoint]:
        """Request a savepoint with which the tasks end, with or without drain (C17)."""
        return self._request(
            self._savepoint(SnapshotType.SAVEPOINT_TERMINATE if terminate else SnapshotType.SAVEPOINT_SUSPEND)
        )

    def stop_with_savepoint(self, *, drain: bool) -> Future[CompletedCheckpoint]:
        """The same, after stopping periodic checkpoints; if it fails, they are started again."""
        was_started = self.is_periodic_checkpointing_started
        self.stop_checkpoint_scheduler()
        savepoint = self.trigger_synchronous_savepoint(terminate=drain)

        def start_again(ended: Future[CompletedCheckpoint]) -> None:
            if was_started and (ended.cancelled() or ended.exception() is not None):
                self.start_checkpoint_scheduler()

        savepoint.add_done_callback(start_again)
        return savepoint

    def shutdown(self) -> None:
        """Trigger and complete nothing any more; completed checkpoints stay."""
        self._is_shut_down = True
        self._scheduler.stop()
        self._decider.abort_all(CheckpointFailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN)
        self.abort_pending_checkpoints(
            CheckpointException(CheckpointFailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN)
        )

    def _savepoint(self, snapshot_type: SnapshotType) -> CheckpointProperties:
        """Forced in jobs with aligned checkpoints, as in Flink."""
        return CheckpointProperties(
            snapshot_type=snapshot_type, is_forced=not self._configuration.is_unaligned
        )

    def _on_tick(self) -> None:
        """The outcome is in the store; a failed checkpoint is requested again at the next tick."""
        self.trigger_checkpoint(is_periodic=True)

    # ------------------------------------------------------------------------------------------- how one starts

    def _request(
        self, properties: CheckpointProperties, *, is_periodic: bool = False
    ) -> Future[CompletedCheckpoint]:
        request = CheckpointTriggerRequest(
            properties=properties, timestamp_ms=now_ms(self._loop), is_periodic=is_periodic
        )
        if self._is_shut_down:
            request.fail(CheckpointFailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN)
            return request.on_completion
        chosen = self._decider.choose_request_to_execute(
            request, is_triggering=self._is_busy, last_completion_ms=self._last_completion_ms
        )
        if chosen is not None:
            self._start(chosen)
            self._start_queued()
        return request.on_completion

    @property
    def _is_busy(self) -> bool:
        return self._is_triggering or self._is_choosing

    def _start_queued(self) -> None:
        """Start waiting requests; a loop instead of recursion, since a thousand may fail in a row."""
        if self._is_busy or self._is_shut_down:
            return
        self._is_choosing = True
        try:
            while not self._is_triggering:
                chosen = self._decider.choose_queued_request_to_execute(
                    is_triggering=False, last_completion_ms=self._last_completion_ms
                )
                if chosen is None:
                    break
                self._start(chosen)
        finally:
            self._is_choosing = False

    def _start(self, request: CheckpointTriggerRequest) -> None:
        """Compute the plan now, and begin when prepared; no other checkpoint starts meanwhile (C32)."""
        self._is_triggering = True
        try:
            self._check_may_trigger(request)
            plan = self._plans.calculate_checkpoint_plan()
        except CheckpointException as refusal:
            self._is_triggering = False
            end_request(request.on_completion, refusal)
        else:
            self._executor(partial(self._begin, request, plan))

    def _check_may_trigger(self, request: CheckpointTriggerRequest) -> None:
        if self._is_shut_down:
            raise CheckpointException(CheckpointFailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN)
        if request.is_periodic and not self._scheduler.is_started:
            raise CheckpointException(CheckpointFailureReason.PERIODIC_SCHEDULER_SHUTDOWN)

    def _begin(self, request: CheckpointTriggerRequest, plan: CheckpointPlan) -> None:
        try:
            self._check_may_trigger(request)
            self._plans.check_still_holds(plan)
        except CheckpointException as refusal:
            self._is_triggering = False
            end_request(request.on_completion, refusal)
        else:
            pending = self._new_pending(request, plan)
            metadata = CheckpointMetaData(checkpoint_id=pending.checkpoint_id, timestamp=pending.timestamp_ms)
            options = self._configuration.options(request.properties.snapshot_type)
            try:
                self._notifier.trigger(plan, metadata, options)
            finally:
                self._is_triggering = False
            if pending.is_fully_acknowledged:  # all tasks have finished
                self._complete(pending)
        self._start_queued()

    def _new_pending(self, request: CheckpointTriggerRequest, plan: CheckpointPlan) -> PendingCheckpoint:
        pending = PendingCheckpoint(
            job_id=self._job_id,
            checkpoint_id=self._next_id,
            timestamp_ms=now_ms(self._loop),
            plan=plan,
            vertices=self._graph.vertices,
            properties=request.properties,
            on_completion=request.on_completion,
        )
        self._next_id += 1
        self.pending_checkpoints[pending.checkpoint_id] = pending
        pending.on_disposed = call_after_ms(
            self._loop, self._configuration.checkpoint_timeout_ms, partial(self._expire, pending)
        ).cancel
        return pending

    # --------------------------------------------------------------------------------------------- after a failure

    def restore_latest_checkpointed_state(
        self, policy: RestorePolicy = RestorePolicy.NEWEST_ONLY
    ) -> RecoveredCheckpoint:
        """The checkpoint from which the job restarts; first aborts pending checkpoints (C37)."""
        self.abort_pending_checkpoints(CheckpointException(CheckpointFailureReason.JOB_FAILURE))
        recovered = read_latest(self.store, policy)
        self._next_id = max(self._next_id, (recovered.checkpoint_id or 0) + 1)
        return recovered

    # --------------------------------------------------------------------------------------------- what tasks say

    def receive_acknowledge_message(self, message: AcknowledgeCheckpoint) -> bool:
        """Add a task's state; return whether the checkpoint is pending or ended recently (C34)."""
        if message.job_id != self._job_id:
            return False  # another job's state
        pending = self.pending_checkpoints.get(message.checkpoint_id)
        if pending is None:
            self._discard_late(message)
            return message.checkpoint_id in self._recent
        match pending.acknowledge_task(message.task, message.state):
            case TaskAcknowledgeResult.SUCCESS:
                self._cleaner.account_for(message.checkpoint_id, message.task)
                if pending.is_fully_acknowledged:
                    self._complete(pending)
            case TaskAcknowledgeResult.DUPLICATE:
                pass  # a repeated message, with the state of the first one
            case TaskAcknowledgeResult.UNKNOWN | TaskAcknowledgeResult.DISCARDED:
                self._discard_late(message)
        return True

    def receive_decline_message(self, message: DeclineCheckpoint) -> None:
        """Abort the checkpoint for the task's reason, if it is pending."""
        if message.job_id != self._job_id:
            return
        pending = self.pending_checkpoints.get(message.checkpoint_id)
        if pending is not None:
            self._abort_those(lambda other: other is pending, message.cause)

    def fail_unacknowledged_pending_checkpoints_for(
        self,
        task: ExecutionAttemptID,
        cause: BaseException | None = None,
        *,
        reason: CheckpointFailureReason = CheckpointFailureReason.TASK_FAILURE,
    ) -> None:
        """A task has ended: abort the checkpoints that wait for it, but not those it has acknowledged (C36)."""
        failure = CheckpointException(reason, str(task))
        failure.__cause__ = cause
        self._abort_those(lambda pending: pending.is_waiting_for(task), failure)

    def abort_pending_checkpoints(self, cause: CheckpointException) -> None:
        """Abort all pending checkpoints, because the job fails, is restored, or stops."""
        self._abort_those(lambda _: True, cause)

    def _discard_late(self, message: AcknowledgeCheckpoint) -> None:
        if message.state is not None:
            self._cleaner.clean_late(
                StateHandle(checkpoint_id=message.checkpoint_id, task=message.task, snapshot=message.state)
            )

    # --------------------------------------------------------------------------------------------- how one ends

    def _complete(self, pending: PendingCheckpoint) -> None:
        """In this order (C35): make it durable, remove it from the pending ones, abort older ones, notify."""
        try:
            completed = pending.finalize_checkpoint(now_ms=now_ms(self._loop))
            subsumed = self.store.add_checkpoint_and_subsume_oldest(completed)
        except Exception as error:  # noqa: BLE001 - any exception of the storage means that nothing is durable
            failure = CheckpointException(CheckpointFailureReason.FINALIZE_CHECKPOINT_FAILURE, str(error))
            failure.__cause__ = error
            self._abort_those(lambda other: other is pending, failure)
            return
        with self._starting_later():
            self._conclude(pending, completed, subsumed)

    def _conclude(
        self,
        pending: PendingCheckpoint,
        completed: CompletedCheckpoint,
        subsumed: Sequence[CompletedCheckpoint],
    ) -> None:
        del self.pending_checkpoints[completed.checkpoint_id]
        self._recent.append(completed.checkpoint_id)
        self._abort_those(
            lambda other: other.checkpoint_id < completed.checkpoint_id and other.properties.can_be_subsumed,
            CheckpointException(CheckpointFailureReason.CHECKPOINT_SUBSUMED),
        )
        self._last_completion_ms = now_ms(self._loop)
        discarded = [checkpoint for checkpoint in subsumed if checkpoint.properties.discard_subsumed]
        subsumed_id = discarded[-1].checkpoint_id if discarded else None
        self._notifier.complete(pending.plan, completed.checkpoint_id, subsumed_id=subsumed_id)
        pending.mark_completed(completed)
        for checkpoint in discarded:
            self._cleaner.clean_checkpoint(
                checkpoint.handles,
                drop_metadata=partial(self.store.storage.discard, checkpoint.checkpoint_id),
            )

    def _expire(self, pending: PendingCheckpoint) -> None:
        expired = CheckpointException(CheckpointFailureReason.CHECKPOINT_EXPIRED)
        self._abort_those(lambda other: other is pending, expired)

    def _abort_those(self, doomed: Callable[[PendingCheckpoint], bool], cause: CheckpointException) -> None:
        with self._starting_later():
            for pending in list(self.pending_checkpoints.values()):
                if doomed(pending):
                    self._abort(pending, cause)

    def _abort(self, pending: PendingCheckpoint, cause: CheckpointException) -> None:
        """Discard what it has received, and notify its tasks, with the latest completed id (C36, C14)."""
        del self.pending_checkpoints[pending.checkpoint_id]
        self._recent.append(pending.checkpoint_id)
        self._notifier.aborted(
            pending.plan, pending.checkpoint_id, latest_completed_id=self.store.latest_checkpoint_id
        )
        pending.abort(cause)
        self._cleaner.clean_checkpoint(pending.handles)

    @contextmanager
    def _starting_later(self) -> Iterator[None]:
        """Start no checkpoint until the block has recorded everything that decides whether one may start (C32, C33)."""
        was_choosing, self._is_choosing = self._is_choosing, True
        try:
            yield
        finally:
            self._is_choosing = was_choosing
        self._start_queued()
