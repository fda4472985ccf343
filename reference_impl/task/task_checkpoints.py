"""What a task does about checkpoints: take part, hear of them, and know which one lets it end.

Answers to the checkpoint half of Flink's `StreamTask`. Invariant: an operator hears of the completion of each
checkpoint at most once and in rising order (C14), and the task ends only when the checkpoint that it waits for is
complete: its savepoint (C17), or, when its data have ended, one that began after that (C18).
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
from reference_impl.task.operator_chain import OperatorChain
from reference_impl.task.task_environment import RecordWriter, TaskEnvironment

__all__ = ["NoCheckpoints", "SubtaskCheckpoints", "TaskCheckpoints"]


class SubtaskCheckpoints(Protocol):
    """Cuts the task, writes the parts, tells the operators; `reference_impl.checkpoints` has one.

    In Flink: `SubtaskCheckpointCoordinator`.
    """

    def init_input_checkpoint(self, checkpoint_id: int, options: CheckpointOptions) -> None:
        """What is in flight before the task may belong to it."""

    def checkpoint_state(
        self,
        metadata: CheckpointMetaData,
        options: CheckpointOptions,
        metrics: CheckpointMetrics,
        *,
        operator_chain: Any,
        is_task_finished: bool,
        is_running: Callable[[], bool],
    ) -> None:
        """Take part (C1-C7)."""

    def notify_checkpoint_complete(
        self, checkpoint_id: int, *, operator_chain: Any, is_running: Callable[[], bool]
    ) -> None:
        """See C13."""

    def notify_checkpoint_aborted(
        self, checkpoint_id: int, *, operator_chain: Any, is_running: Callable[[], bool]
    ) -> None:
        """See C12."""

    def notify_checkpoint_subsumed(
        self, checkpoint_id: int, *, operator_chain: Any, is_running: Callable[[], bool]
    ) -> None:
        """See C13."""

    def abort_checkpoint_on_barrier(
        self, checkpoint_id: int, cause: CheckpointException, *, operator_chain: Any
    ) -> None:
        """See C25."""

    def wait_for_pending_checkpoints(self) -> None:
        """Return when no asynchronous part is running."""

    def cancel(self) -> None:
        """Stop what is running; from any thread."""

    def close(self) -> None:
        """Give back what is held."""


class NoCheckpoints:
    """Of a job without checkpoints: there is nothing to wait for, and being told of one is harmless."""

    def init_input_checkpoint(self, checkpoint_id: int, options: CheckpointOptions) -> None:
        """Nothing is kept."""

    def checkpoint_state(self, *_: Any, **__: Any) -> None:
        """Nothing is kept."""

    def notify_checkpoint_complete(self, checkpoint_id: int, **_: Any) -> None:
        """Nobody hears of it."""

    def notify_checkpoint_aborted(self, checkpoint_id: int, **_: Any) -> None:
        """Nobody hears of it."""

    def notify_checkpoint_subsumed(self, checkpoint_id: int, **_: Any) -> None:
        """Nobody hears of it."""

    def abort_checkpoint_on_barrier(
        self, checkpoint_id: int, cause: CheckpointException, *, operator_chain: Any
    ) -> None:
        """Nobody hears of it."""

    def wait_for_pending_checkpoints(self) -> None:
        """There are none."""

    def cancel(self) -> None:
        """Nothing runs."""

    def close(self) -> None:
        """Nothing is held."""


class TaskCheckpoints:
    """On the task's thread only. Mutable."""

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
        """Whether a task whose data have ended stays for one more checkpoint (C18)."""
        self._chain = operator_chain
        self._record_writer = record_writer
        self._environment = environment
        self._is_running = is_running
        self._latest_reported = environment.restored_checkpoint_id or 0
        """No operator hears of the completion of this one or an earlier one any more (C14)."""
        self.sync_savepoint: int | None = None
        """The savepoint whose completion ends the task, once it was begun (C17)."""
        self.final_checkpoint_min_id: int | None = None
        """The first checkpoint that began after the end of data; it or a later one is the last (C18)."""
        self.final_checkpoint_completed = Availability()
        """Whether the checkpoint that the end waits for is complete."""
        self.has_end_of_data = False
        """Whether the operators have finished; set by the task."""

    # ------------------------------------------------------------------------------------------- taking part

    def init_input_checkpoint(self, checkpoint_id: int, options: CheckpointOptions) -> None:
        """A checkpoint that comes by call and not by barriers begins."""
        self._coordinator.init_input_checkpoint(checkpoint_id, options)

    def perform_checkpoint(
        self, metadata: CheckpointMetaData, options: CheckpointOptions, metrics: CheckpointMetrics
    ) -> bool:
        """Take part; if the task is not running, tell who reads from it not to wait, and say no (C16)."""
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
        """The coordinator hears that the task has no part in it (C16)."""
        error = CheckpointException(
            reason, f"task {self._environment.task_name!r}, checkpoint {checkpoint_id}"
        )
        self._environment.decline_checkpoint(checkpoint_id, error)

    def abort_on_barrier(self, checkpoint_id: int, cause: CheckpointException) -> None:
        """Its barriers will not all come (C25); if it is the savepoint that ends the task, that has failed (C17)."""
        self._require_no_sync_savepoint(checkpoint_id, cause)
        self._coordinator.abort_checkpoint_on_barrier(checkpoint_id, cause, operator_chain=self._chain)

    def _require_no_sync_savepoint(
        self, checkpoint_id: int, cause: CheckpointException | None = None
    ) -> None:
        if checkpoint_id == self.sync_savepoint:
            raise StopWithSavepointFailed(self._environment.task_name, checkpoint_id) from cause

    # ------------------------------------------------------------------------------------------- hearing of them

    def notify_complete(self, checkpoint_id: int) -> None:
        """Once for each, and never for an earlier one than before (C14); it may be what the end waits for."""
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
            return checkpoint_id == self.sync_savepoint  # another one is not what was asked for (C18)
        return self.final_checkpoint_min_id is not None and checkpoint_id >= self.final_checkpoint_min_id

    def notify_abort(self, checkpoint_id: int, latest_completed_id: int) -> None:
        """First what a lost notification owes (C14); then, a savepoint that the end waits for fails the task (C17)."""
        if latest_completed_id > 0:
            self.notify_complete(latest_completed_id)
        self._require_no_sync_savepoint(checkpoint_id)
        self._coordinator.notify_checkpoint_aborted(
            checkpoint_id, operator_chain=self._chain, is_running=self._is_running
        )

    def notify_subsumed(self, checkpoint_id: int) -> None:
        """Nothing of the user's hears of it (C13)."""
        self._coordinator.notify_checkpoint_subsumed(
            checkpoint_id, operator_chain=self._chain, is_running=self._is_running
        )

    # ------------------------------------------------------------------------------------------- the end

    def termination_conditions(self) -> list[Availability]:
        """What a task whose input has ended must wait for (M47)."""
        conditions: list[Availability] = []
        if self.awaits_final_checkpoint and self.has_end_of_data:
            conditions += [self._record_writer.all_data_processed, self.final_checkpoint_completed]
        elif self.sync_savepoint is not None:
            conditions.append(self.final_checkpoint_completed)
        return conditions

    def wait_for_pending(self) -> None:
        """Until nothing is being written."""
        if self.awaits_final_checkpoint:
            self._coordinator.wait_for_pending_checkpoints()

    def cancel(self) -> None:
        """Stop what is running; from any thread."""
        self._coordinator.cancel()

    def close(self) -> None:
        """Give back what is held."""
        self._coordinator.close()
