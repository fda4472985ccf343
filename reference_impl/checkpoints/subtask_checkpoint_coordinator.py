"""The checkpoints of one subtask: takes its snapshot, has it written in the background, and passes on notifications.

Answers to Flink's `SubtaskCheckpointCoordinatorImpl`, with its set of aborted ids, and to the checkpoint side of
`OperatorChain`. Invariant: from the barrier's emission to the end of the synchronous part nothing else runs on the
task's thread, so the records after the barrier downstream are exactly those that are not in the snapshot (C4).
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from concurrent.futures import Future, wait
from threading import Lock
from typing import Protocol

from reference_impl.checkpoint_events import (
    CancelCheckpointMarker,
    ChannelEvent,
    CheckpointBarrier,
    CheckpointException,
    CheckpointMetaData,
    CheckpointMetrics,
    CheckpointOptions,
)
from reference_impl.checkpoints.async_checkpoint import (
    AsyncCheckpointRunnable,
    OperatorSnapshotFutures,
    TaskStateStore,
)
from reference_impl.checkpoints.channels import ChannelStateWriter
from reference_impl.errors import SnapshotCancelled
from reference_impl.mailbox.timers import Timer, Timers, cancel


class CheckpointedChain(Protocol):
    """The operators of one task and its outputs, as far as checkpoints concern them.

    Answers to the checkpoint side of Flink's `OperatorChain`. Invariant: a method that calls all operators calls each
    of them even if one fails, and raises the first error at the end (C12).
    """

    @property
    def operator_ids(self) -> Sequence[str]:
        """The operators' ids from head to tail."""

    @property
    def is_task_deployed_as_finished(self) -> bool:
        """Whether the task had finished before the restored checkpoint, so that no operator runs (C19)."""

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        """Emit what must leave before the barrier; from head to tail (C3)."""

    def broadcast_event(self, event: ChannelEvent, *, is_priority: bool) -> None:
        """Send `event` to every output channel; with priority it overtakes in-flight data."""

    def snapshot_state(
        self,
        futures: MutableMapping[str, OperatorSnapshotFutures],
        metadata: CheckpointMetaData,
        options: CheckpointOptions,
    ) -> None:
        """Fill `futures` by operator, from tail to head, skipping closed operators (C3)."""

    def alignment_barrier_timeout(self, barrier: CheckpointBarrier) -> None:
        """The barrier has not left in time: let it overtake in-flight output (C26)."""

    def abort_checkpoint(self, checkpoint_id: int) -> None:
        """Stop waiting for the checkpoint's barrier to leave."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notify the operators that are not closed (C13)."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notify all operators, from tail to head (C12)."""

    def notify_checkpoint_subsumed(self, checkpoint_id: int) -> None:
        """Notify the state backends (C13)."""


class AbortedCheckpoints:
    """Ids of checkpoints that were aborted before their barriers came; bounded. Mutable.

    Answers to the set of aborted ids in Flink's `SubtaskCheckpointCoordinatorImpl`. Invariant: it holds at most
    `limit` ids (C12). An id so far below the highest that it may have been dropped counts as aborted, so that no
    snapshot is taken for a checkpoint that is over.
    """

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"the marks of aborted checkpoints are limited to {limit}; give 1 or more")
        self._limit = limit
        self._marks: dict[int, None] = {}
        self._highest = 0

    def __len__(self) -> int:
        return len(self._marks)

    def add(self, checkpoint_id: int) -> None:
        """Add an id; if there are too many, drop the oldest (C12)."""
        self._marks.setdefault(checkpoint_id)
        self._highest = max(self._highest, checkpoint_id)
        if len(self._marks) > self._limit:
            del self._marks[next(iter(self._marks))]

    def take(self, checkpoint_id: int) -> bool:
        """Whether the checkpoint was aborted; forgets the id."""
        if checkpoint_id in self._marks:
            del self._marks[checkpoint_id]
            return True
        return checkpoint_id + self._limit < self._highest

    def forget_below(self, checkpoint_id: int) -> None:
        """Forget lower ids, whose barriers no longer count (C1)."""
        for mark in [mark for mark in self._marks if mark < checkpoint_id]:
            del self._marks[mark]


AwaitFinished = Callable[[Sequence[Future[None]]], object]
"""Waits until all futures have ended, by blocking or by running the event loop."""

PrepareInputSnapshot = Callable[[ChannelStateWriter, int], Future[None]]
"""Begins to write what the input's barriers overtake; the future ends with the last barrier (C27)."""


class SubtaskCheckpointCoordinator:
    """Takes the snapshots of one subtask, has them written in the background, and passes on notifications. Mutable.

    Everything happens on the task's thread, except what `executor` runs.

    Answers to Flink's `SubtaskCheckpointCoordinatorImpl`. Invariant: from the barrier's emission to the end of the
    synchronous part nothing else runs on the task's thread (C4). The subtask takes part in each checkpoint at most
    once, in rising order of ids (C1).

    Differences from Flink: the asynchronous part goes to `executor` only when the in-flight data have been written,
    where Flink's blocks a pool thread; so one thread suffices, and a virtual loop can run everything. An abort ends a
    running asynchronous part at once, where Flink's only requests it, so nothing is acknowledged afterwards. An abort
    caused by a barrier also ends it, so the checkpoint is declined once and not again when the part fails.
    """

    def __init__(
        self,
        *,
        task_name: str,
        task_state_store: TaskStateStore,
        executor: Callable[[Callable[[], None]], None],
        fail: Callable[[BaseException], None],
        timers: Timers | None = None,
        channel_state_writer: ChannelStateWriter | None = None,
        prepare_input_snapshot: PrepareInputSnapshot | None = None,
        max_record_aborted_checkpoints: int = 10,
        await_finished: AwaitFinished = wait,
        async_part: type[AsyncCheckpointRunnable] = AsyncCheckpointRunnable,
        in_slices: bool = False,
    ) -> None:
        """`in_slices`: give `executor` small pieces, which it can run between the task's mail."""
        self.last_checkpoint_id = -1
        """The highest checkpoint in which this subtask took part, or that it gave up."""
        self.aborted = AbortedCheckpoints(max_record_aborted_checkpoints)
        """Aborted checkpoints whose barriers have not come yet."""
        self._task_name = task_name
        self._task_state_store = task_state_store
        self._executor = executor
        self._fail = fail
        self._timers = timers
        self._channel_state_writer = channel_state_writer
        self._prepare_input_snapshot = prepare_input_snapshot
        self._await_finished = await_finished
        self._async_part = async_part
        self._in_slices = in_slices
        self._turn = Lock()
        self._pending: dict[int, AsyncCheckpointRunnable] = {}
        self._is_closed = False
        self._alignment_timer: Timer | None = None
        self._alignment_checkpoint_id = -1

    @property
    def pending_checkpoints(self) -> list[int]:
        """Checkpoints whose asynchronous part has not ended."""
        with self._turn:
            return list(self._pending)

    # ------------------------------------------------------------------------------------------------- the cut

    def init_input_checkpoint(self, checkpoint_id: int, options: CheckpointOptions) -> None:
        """Called before the barrier is processed: begin to write in-flight data if the options ask for it."""
        writer = self._channel_state_writer
        if writer is None or not options.needs_channel_state:
            return
        writer.start(checkpoint_id, options)
        if options.is_unaligned and self._prepare_input_snapshot is not None:
            captured = self._prepare_input_snapshot(writer, checkpoint_id)
            captured.add_done_callback(lambda ended: _finish_input(writer, checkpoint_id, ended))
        else:
            writer.finish_input(checkpoint_id)

    def checkpoint_state(
        self,
        metadata: CheckpointMetaData,
        options: CheckpointOptions,
        metrics: CheckpointMetrics,
        *,
        operator_chain: CheckpointedChain,
        is_task_finished: bool,
        is_running: Callable[[], bool],
    ) -> None:
        """Take the snapshot now and start its asynchronous part; an exception fails the task (C5)."""
        checkpoint_id = metadata.checkpoint_id
        was_aborted = self.aborted.take(checkpoint_id)
        if checkpoint_id <= self.last_checkpoint_id:
            cause = SnapshotCancelled(f"checkpoint {checkpoint_id} came out of order")
            self._abort_channel_state(checkpoint_id, cause, cleanup=True)  # C1
            return
        self.last_checkpoint_id = checkpoint_id
        if was_aborted:  # receivers must not wait for its barrier (C2, FLINK-18238)
            operator_chain.broadcast_event(
                CancelCheckpointMarker(checkpoint_id=checkpoint_id), is_priority=False
            )
            self._abort_channel_state(checkpoint_id, _notified(checkpoint_id), cleanup=True)
            return
        futures: dict[str, OperatorSnapshotFutures] = {}
        try:
            self._take_snapshot_sync(futures, metadata, options, operator_chain)
            part = self._async_part(
                futures,
                metadata,
                metrics,
                task_name=self._task_name,
                task_state_store=self._task_state_store,
                is_running=is_running,
                fail=self._fail,
                unregister=self._unregister,
                is_task_deployed_as_finished=operator_chain.is_task_deployed_as_finished,
                is_task_finished=is_task_finished,
            )
            self._register(part)
        except BaseException as error:
            self._abort_channel_state(checkpoint_id, error, cleanup=True)
            for each in futures.values():
                each.cancel()
            raise
        self._run_behind(part, [future for each in futures.values() for future in each.channel_states])

    def _take_snapshot_sync(
        self,
        futures: dict[str, OperatorSnapshotFutures],
        metadata: CheckpointMetaData,
        options: CheckpointOptions,
        chain: CheckpointedChain,
    ) -> None:
        """Send the barrier before the operators' snapshots are taken, since receivers wait for it (C3)."""
        chain.prepare_snapshot_pre_barrier(metadata.checkpoint_id)
        barrier = CheckpointBarrier(
            checkpoint_id=metadata.checkpoint_id, timestamp=metadata.timestamp, options=options
        )
        chain.broadcast_event(barrier, is_priority=options.is_unaligned)
        self._arm_alignment_timer(barrier, chain)
        writer = self._channel_state_writer
        if writer is None or not options.needs_channel_state:
            chain.snapshot_state(futures, metadata, options)
            return
        chain.snapshot_state(futures, metadata, options)
        in_flight = writer.get_and_remove_write_result(metadata.checkpoint_id)
        if chain.operator_ids:
            head = futures.setdefault(chain.operator_ids[0], OperatorSnapshotFutures())
            head.input_channel_state = in_flight.input_channel_state

    def _run_behind(self, part: AsyncCheckpointRunnable, in_flight: Sequence[Future[object]]) -> None:
        """Hand `part` to the executor once the in-flight data have been written."""
        for future in in_flight:
            if not future.done():
                future.add_done_callback(lambda _ended: self._run_behind(part, in_flight))
                return
        self._hand_to_executor(part)

    def _hand_to_executor(self, part: AsyncCheckpointRunnable) -> None:
        try:
            self._executor((lambda: self._run_slice(part)) if self._in_slices else part.run)
        except Exception as error:  # noqa: BLE001 - a part that cannot run must still be ended
            part.close()
            self._unregister(part)
            self._fail(error)

    def _run_slice(self, part: AsyncCheckpointRunnable) -> None:
        if not part.run_slice():
            self._hand_to_executor(part)

    # -------------------------------------------------------------------------------------- what became of it

    def notify_checkpoint_complete(
        self, checkpoint_id: int, *, operator_chain: CheckpointedChain, is_running: Callable[[], bool]
    ) -> None:
        """The checkpoint is durable. Operators are notified only while they run, the state store always (C13)."""
        try:
            if is_running():
                operator_chain.notify_checkpoint_complete(checkpoint_id)
        finally:
            self._task_state_store.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(
        self, checkpoint_id: int, *, operator_chain: CheckpointedChain, is_running: Callable[[], bool]
    ) -> None:
        """End the asynchronous part, or remember the id in case the barrier has not come yet (C12)."""
        try:
            if is_running():
                if not self._cancel_async_part(checkpoint_id) and checkpoint_id > self.last_checkpoint_id:
                    self.aborted.add(checkpoint_id)
                self._disarm_alignment_timer_of(checkpoint_id)
                self._abort_channel_state(checkpoint_id, _notified(checkpoint_id), cleanup=False)
                operator_chain.notify_checkpoint_aborted(checkpoint_id)
        finally:
            self._task_state_store.notify_checkpoint_aborted(checkpoint_id)

    def notify_checkpoint_subsumed(
        self, checkpoint_id: int, *, operator_chain: CheckpointedChain, is_running: Callable[[], bool]
    ) -> None:
        """This checkpoint and older ones are no longer kept; only backends are notified, no user code (C13)."""
        if is_running():
            operator_chain.notify_checkpoint_subsumed(checkpoint_id)

    def abort_checkpoint_on_barrier(
        self, checkpoint_id: int, cause: CheckpointException, *, operator_chain: CheckpointedChain
    ) -> None:
        """Decline the checkpoint, since not all barriers will come, and send a cancellation marker downstream (C25)."""
        self.last_checkpoint_id = max(self.last_checkpoint_id, checkpoint_id)
        self.aborted.forget_below(self.last_checkpoint_id)
        self._cancel_async_part(checkpoint_id)
        self._abort_channel_state(checkpoint_id, cause, cleanup=True)
        self._task_state_store.responder.decline_checkpoint(checkpoint_id, cause)
        self._disarm_alignment_timer_of(checkpoint_id)
        operator_chain.abort_checkpoint(checkpoint_id)
        try:
            operator_chain.notify_checkpoint_aborted(checkpoint_id)
        finally:
            marker = CancelCheckpointMarker(checkpoint_id=checkpoint_id)
            operator_chain.broadcast_event(marker, is_priority=False)

    # ------------------------------------------------------------------------------------------------ the end

    def wait_for_pending_checkpoints(self) -> None:
        """Return when all asynchronous parts have ended, successfully or not (M47)."""
        with self._turn:
            finished = [part.finished for part in self._pending.values()]
        if finished:
            self._await_finished(finished)

    def cancel(self) -> None:
        """End all asynchronous parts, and refuse new ones (C11)."""
        with self._turn:
            self._is_closed = True
            parts = list(self._pending.values())
            self._pending.clear()
        for part in parts:
            part.close()

    def close(self) -> None:
        """Stop the timer, the asynchronous parts and the writing of in-flight data."""
        self._disarm_alignment_timer()
        self.cancel()
        if self._channel_state_writer is not None:
            self._channel_state_writer.close()

    # --------------------------------------------------------------------------------- the asynchronous parts

    def _register(self, part: AsyncCheckpointRunnable) -> None:
        checkpoint_id = part.metadata.checkpoint_id
        with self._turn:
            is_doubled = checkpoint_id in self._pending
            is_refused = self._is_closed or is_doubled
            if not is_refused:
                self._pending[checkpoint_id] = part
        if is_refused:
            part.close()
        if is_doubled:
            message = (
                f"the asynchronous part of checkpoint {checkpoint_id} of {self._task_name} is running already;"
                " a subtask takes part in each checkpoint once (C11)"
            )
            raise OSError(message)

    def _unregister(self, part: AsyncCheckpointRunnable) -> None:
        with self._turn:
            if self._pending.get(part.metadata.checkpoint_id) is part:
                del self._pending[part.metadata.checkpoint_id]

    def _cancel_async_part(self, checkpoint_id: int) -> bool:
        with self._turn:
            part = self._pending.pop(checkpoint_id, None)
        if part is None:
            return False
        part.close()
        return True

    def _abort_channel_state(self, checkpoint_id: int, cause: BaseException, *, cleanup: bool) -> None:
        """Without effect if writing was never started (FLINK-17218)."""
        if self._channel_state_writer is not None:
            self._channel_state_writer.abort(checkpoint_id, cause, cleanup=cleanup)

    # ---------------------------------------------------------------------------------------- the alignment timer

    def _arm_alignment_timer(self, barrier: CheckpointBarrier, chain: CheckpointedChain) -> None:
        """Start the timer after which an aligned barrier overtakes in-flight output (C26)."""
        self._disarm_alignment_timer()
        timeout_ms = barrier.options.aligned_timeout_ms
        if self._timers is None or timeout_ms is None or not barrier.options.is_timeoutable:
            return
        elapsed_ms = self._timers.now_ms() - barrier.timestamp
        self._alignment_checkpoint_id = barrier.checkpoint_id
        delay_ms = max(timeout_ms - elapsed_ms + 1, 0)  # MORE than the timeout must have passed (C26)
        self._alignment_timer = self._timers.register(
            delay_ms, lambda: chain.alignment_barrier_timeout(barrier)
        )

    def _disarm_alignment_timer_of(self, checkpoint_id: int) -> None:
        if self._alignment_checkpoint_id == checkpoint_id:
            self._disarm_alignment_timer()

    def _disarm_alignment_timer(self) -> None:
        if self._alignment_timer is not None:
            cancel(self._alignment_timer)
            self._alignment_timer = None


def _finish_input(writer: ChannelStateWriter, checkpoint_id: int, captured: Future[None]) -> None:
    error = _notified(checkpoint_id) if captured.cancelled() else captured.exception()
    if error is None:
        writer.finish_input(checkpoint_id)
    else:
        writer.abort(checkpoint_id, error, cleanup=False)  # keeps the result, to report it (FLINK-28474)


def _notified(checkpoint_id: int) -> SnapshotCancelled:
    return SnapshotCancelled(f"checkpoint {checkpoint_id} was aborted by notification")
