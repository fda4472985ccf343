"""A task's part in checkpoints: it takes part, passes on notifications, and knows which checkpoint lets it end.

Answers to the checkpoint half of Flink's `StreamTask`. Invariant: an operator is notified of the completion of each
checkpoint at most once, in rising order of ids (C14). The task ends only when the checkpoint that it waits for is
complete: its savepoint (C17), or, after the end of data, a checkpoint that began after that end (C18).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from reference_impl.checkpoint_events import (
    CancelCheckpointMarker,
    CheckpointException,
    CheckpointFailureReason,
    CheckpointMetaData,
    CheckpointMetrics,
    CheckpointOptions,
)
from reference_impl.errors import StopWithSavepointFailed
from reference_impl.mailbox.availability import Availability
from reference_impl.task.operator_chain import OperatorChain, RecordWriter, TaskEnvironment


class SubtaskCheckpoints(Protocol):
    """The snapshots of a subtask; implemented in `reference_impl.checkpoints`.

    Answers to Flink's `SubtaskCheckpointCoordinator`.
    """

    def init_input_checkpoint(self, checkpoint_id: int, options: CheckpointOptions) -> None:
        """Prepare to store what is in flight before the task."""

    def checkpoint_state(
        self,
        metadata: CheckpointMetaData,
        options: CheckpointOptions,
        metrics: CheckpointMetrics,
        *,
        operator_chain: OperatorChain,
        is_task_finished: bool,
        is_running: Callable[[], bool],
    ) -> None:
        """Take the snapshot (C1-C7)."""

    def notify_checkpoint_complete(
        self, checkpoint_id: int, *, operator_chain: OperatorChain, is_running: Callable[[], bool]
    ) -> None:
        """The checkpoint is durable (C13)."""

    def notify_checkpoint_aborted(
        self, checkpoint_id: int, *, operator_chain: OperatorChain, is_running: Callable[[], bool]
    ) -> None:
        """The checkpoint will never complete (C12)."""

    def notify_checkpoint_subsumed(
        self, checkpoint_id: int, *, operator_chain: OperatorChain, is_running: Callable[[], bool]
    ) -> None:
        """The checkpoint is no longer kept (C13)."""

    def abort_checkpoint_on_barrier(
        self, checkpoint_id: int, cause: CheckpointException, *, operator_chain: OperatorChain
    ) -> None:
        """Abort a checkpoint of which not all barriers will come (C25)."""

    def wait_for_pending_checkpoints(self) -> None:
        """Return when no asynchronous part is running."""

    def cancel(self) -> None:
        """Stop running asynchronous parts; any thread may call it."""

    def close(self) -> None: ...


class NoCheckpoints:
    """For a job without checkpoints: every call does nothing."""

    def init_input_checkpoint(self, checkpoint_id: int, options: CheckpointOptions) -> None: ...

    def checkpoint_state(self, *_: object, **__: Any) -> None: ...

    def notify_checkpoint_complete(self, checkpoint_id: int, **_: Any) -> None: ...

    def notify_checkpoint_aborted(self, checkpoint_id: int, **_: Any) -> None: ...

    def notify_checkpoint_subsumed(self, checkpoint_id: int, **_: Any) -> None: ...

    def abort_checkpoint_on_barrier(
        self, checkpoint_id: int, cause: CheckpointException, *, operator_chain: object
    ) -> None: ...

    def wait_for_pending_checkpoints(self) -> None: ...

    def cancel(self) -> None: ...

    def close(self) -> None: ...


class TaskCheckpoints:
    """The checkpoints of one task. Mutable; used on the task's thread."""

    def __init__(
        self,
        coordinator: SubtaskCheckpoints | None,
        *,
        operator_chain: OperatorChain,
        record_writer: RecordWriter,
        environment: TaskEnvironment,
        is_running: Callable[[], bool],
    ) -> None:
        self._coordinator = coordinator or NoCheckpoints()
        self.awaits_final_checkpoint = coordinator is not None and environment.checkpoints_after_tasks_finish
        """Whether the task stays for one more checkpoint after the end of its data (C18)."""
        self._chain = operator_chain
        self._record_writer = record_writer
        self._environment = environment
        self._is_running = is_running
        self._latest_reported = environment.restored_checkpoint_id or 0
        """Operators have been notified of this checkpoint, and are not notified of older ones (C14)."""
        self.sync_savepoint: int | None = None
        """The stop-with-savepoint in progress, whose completion ends the task (C17)."""
        self.final_checkpoint_min_id: int | None = None
        """The first checkpoint after the end of data; the task ends when this or a later one completes (C18)."""
        self.final_checkpoint_completed = Availability()
        """Ends when the checkpoint that lets the task end is complete."""
        self.has_end_of_data = False
        """Whether the operators have finished; set by the task."""

    def init_input_checkpoint(self, checkpoint_id: int, options: CheckpointOptions) -> None:
        """Prepare to store in-flight input, for a checkpoint that was triggered by a call instead of by barriers."""
        self._coordinator.init_input_checkpoint(checkpoint_id, options)

    def perform_checkpoint(
        self, metadata: CheckpointMetaData, options: CheckpointOptions, metrics: CheckpointMetrics
    ) -> bool:
        """Take part; if the task is not running, send a cancellation marker downstream and return False (C16)."""
        checkpoint_id = metadata.checkpoint_id
        if not self._is_running():
            self._record_writer.broadcast_event(CancelCheckpointMarker(checkpoint_id=checkpoint_id))
            return False
        if options.snapshot_type.is_synchronous:
            self.sync_savepoint = checkpoint_id
        if self.awaits_final_checkpoint and self.has_end_of_data and self.final_checkpoint_min_id is None:
            self.final_checkpoint_min_id = checkpoint_id
        self._coordinator.checkpoint_state(
            metadata,
            options,
            metrics,
            operator_chain=self._chain,
            is_task_finished=self.has_end_of_data,
            is_running=self._is_running,
        )
        return True

    def decline(self, checkpoint_id: int, reason: CheckpointFailureReason) -> None:
        """Tell the checkpoint coordinator that the task does not take part (C16)."""
        error = CheckpointException(
            reason, f"task {self._environment.task_name!r}, checkpoint {checkpoint_id}"
        )
        self._environment.decline_checkpoint(checkpoint_id, error)

    def abort_on_barrier(self, checkpoint_id: int, cause: CheckpointException) -> None:
        """Abort a checkpoint that lacks barriers for good (C25); a stop-with-savepoint fails the task (C17)."""
        self._require_no_sync_savepoint(checkpoint_id, cause)
        self._coordinator.abort_checkpoint_on_barrier(checkpoint_id, cause, operator_chain=self._chain)

    def _require_no_sync_savepoint(
        self, checkpoint_id: int, cause: CheckpointException | None = None
    ) -> None:
        if checkpoint_id == self.sync_savepoint:
            raise StopWithSavepointFailed(self._environment.task_name, checkpoint_id) from cause

    def notify_complete(self, checkpoint_id: int) -> None:
        """Notify the operators, at most once for each checkpoint and never of an older one (C14)."""
        if checkpoint_id <= self._latest_reported:
            return
        self._latest_reported = checkpoint_id
        self._coordinator.notify_checkpoint_complete(
            checkpoint_id, operator_chain=self._chain, is_running=self._is_running
        )
        if self._is_running() and self._is_last(checkpoint_id) and not self.final_checkpoint_completed:
            self.final_checkpoint_completed.end()

    def _is_last(self, checkpoint_id: int) -> bool:
        if self.sync_savepoint is not None:
            return checkpoint_id == self.sync_savepoint  # not any later checkpoint (C18)
        return self.final_checkpoint_min_id is not None and checkpoint_id >= self.final_checkpoint_min_id

    def notify_abort(self, checkpoint_id: int, latest_completed_id: int) -> None:
        """Notify a missed completion (C14), then the abort; an aborted stop-with-savepoint fails the task (C17)."""
        if latest_completed_id > 0:
            self.notify_complete(latest_completed_id)
        self._require_no_sync_savepoint(checkpoint_id)
        self._coordinator.notify_checkpoint_aborted(
            checkpoint_id, operator_chain=self._chain, is_running=self._is_running
        )

    def notify_subsumed(self, checkpoint_id: int) -> None:
        """Notify the state backends; user code is not called (C13)."""
        self._coordinator.notify_checkpoint_subsumed(
            checkpoint_id, operator_chain=self._chain, is_running=self._is_running
        )

    def termination_conditions(self) -> list[Availability]:
        """What the task must wait for after its input has ended (M47)."""
        conditions: list[Availability] = []
        if self.awaits_final_checkpoint and self.has_end_of_data:
            conditions += [self._record_writer.all_data_processed, self.final_checkpoint_completed]
        elif self.sync_savepoint is not None:
            conditions.append(self.final_checkpoint_completed)
        return conditions

    def wait_for_pending(self) -> None:
        """Wait until no asynchronous part is running."""
        if self.awaits_final_checkpoint:
            self._coordinator.wait_for_pending_checkpoints()

    def cancel(self) -> None:
        """Stop running asynchronous parts; any thread may call it."""
        self._coordinator.cancel()

    def close(self) -> None:
        self._coordinator.close()
