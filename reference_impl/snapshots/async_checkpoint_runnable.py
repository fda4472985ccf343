"""The asynchronous part of a subtask's checkpoint: everything is written, then acknowledged.

Answers to Flink's `AsyncCheckpointRunnable`. Invariant: one transition, out of RUNNING, decides. Whoever makes it
to COMPLETED acknowledges, once, and from then on no cancellation may touch what was written (FLINK-5667); whoever
makes it to DISCARDED discards everything, once, and nothing is ever acknowledged (C8). Either way `finished`
ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from enum import Enum
from threading import Lock

from reference_impl.checkpoint_failure import CheckpointException, CheckpointFailureReason
from reference_impl.checkpoint_metadata import CheckpointMetaData, CheckpointMetrics
from reference_impl.snapshots.operator_snapshot_futures import OperatorSnapshotFutures
from reference_impl.snapshots.task_state_snapshot import FINISHED_ON_RESTORE, TaskStateSnapshot
from reference_impl.snapshots.task_state_store import TaskStateStore

__all__ = ["AsyncCheckpointRunnable", "AsyncCheckpointState"]


class AsyncCheckpointState(Enum):
    """Where the asynchronous part is (C8)."""

    RUNNING = "running"
    COMPLETED = "completed"
    DISCARDED = "discarded"


class AsyncCheckpointRunnable:
    """`run` on whatever thread, `close` on the task's. Mutable: its state."""

    def __init__(
        self,
        snapshots_in_progress: Mapping[str, OperatorSnapshotFutures],
        metadata: CheckpointMetaData,
        metrics: CheckpointMetrics,
        *,
        task_name: str,
        task_state_store: TaskStateStore,
        is_running: Callable[[], bool],
        fail: Callable[[BaseException], None],
        unregister: Callable[[AsyncCheckpointRunnable], None],
        is_task_deployed_as_finished: bool = False,
        is_task_finished: bool = False,
    ) -> None:
        self.metadata = metadata
        self.finished: Future[None] = Future()
        """Ends with the asynchronous part, however that does; it carries no error."""
        self._snapshots_in_progress = snapshots_in_progress
        self._metrics = metrics
        self._task_name = task_name
        self._task_state_store = task_state_store
        self._is_running = is_running
        self._fail = fail
        self._unregister = unregister
        self._is_task_deployed_as_finished = is_task_deployed_as_finished
        self._is_task_finished = is_task_finished
        self._turn = Lock()
        self._state = AsyncCheckpointState.RUNNING

    @property
    def state(self) -> AsyncCheckpointState:
        """Where it is."""
        return self._state

    def run(self) -> None:
        """Write everything and acknowledge; or, if anything of it fails, discard everything and decline (C9)."""
        try:
            if self._state is AsyncCheckpointState.RUNNING:
                self._complete(self._finalize())
        except Exception as error:  # noqa: BLE001 - the task survives it (C9)
            self._handle_execution_exception(error)
        finally:
            if self._state is AsyncCheckpointState.DISCARDED:
                self._discard()  # what was being written when it was closed has been written since
            self._unregister(self)
            self._end()

    def run_slice(self) -> bool:
        """Write a little, for a thread that has other things to do; whether that was all, as after `run`."""
        if self._state is AsyncCheckpointState.RUNNING:
            for futures in self._snapshots_in_progress.values():
                if not futures.run_slice():
                    return False
        self.run()
        return True

    def close(self) -> None:
        """Let nothing come of it; without effect on what has been acknowledged (C8)."""
        if self._moved(AsyncCheckpointState.RUNNING, AsyncCheckpointState.DISCARDED):
            self._discard()
            self._end()

    def _finalize(self) -> TaskStateSnapshot:
        states = {
            operator_id: futures.finalize() for operator_id, futures in self._snapshots_in_progress.items()
        }
        if self._is_task_deployed_as_finished:
            return FINISHED_ON_RESTORE
        return TaskStateSnapshot(operator_states=states, is_task_finished=self._is_task_finished)

    def _complete(self, snapshot: TaskStateSnapshot) -> None:
        if self._moved(AsyncCheckpointState.RUNNING, AsyncCheckpointState.COMPLETED):
            self._report(snapshot)

    def _report(self, snapshot: TaskStateSnapshot) -> None:
        """An empty handle would be looked for in vain by a job without the operator, so it is None (FLINK-5985)."""
        acknowledged = snapshot if snapshot.has_state else None
        self._task_state_store.report_task_state_snapshots(self.metadata, self._metrics, acknowledged)

    def _handle_execution_exception(self, error: Exception) -> None:
        """The first failure declines; one that follows from a cancellation is of no interest (FLINK-12889)."""
        was = self._state
        if was is AsyncCheckpointState.DISCARDED or not self._moved(was, AsyncCheckpointState.DISCARDED):
            return
        self._discard()
        if self._is_running():  # else the job would count a failure that is its own end (C9)
            try:
                self._task_state_store.decline_checkpoint(self.metadata.checkpoint_id, self._decline(error))
            except Exception as unhandled:  # noqa: BLE001 - nobody would learn of the checkpoint's end
                self._fail(unhandled)

    def _decline(self, error: Exception) -> CheckpointException:
        """With the reason of the `CheckpointException` that led to it, if there is one."""
        original = _checkpoint_exception_in(error)
        reason = original.reason if original else CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION
        what = f"checkpoint {self.metadata.checkpoint_id} of {self._task_name} could not be written: {error}"
        exception = CheckpointException(reason, what)
        exception.__cause__ = error
        return exception

    def _discard(self) -> None:
        for futures in self._snapshots_in_progress.values():
            futures.cancel()

    def _moved(self, expected: AsyncCheckpointState, to: AsyncCheckpointState) -> bool:
        """Compare and set: whether this caller was the one that moved it."""
        with self._turn:
            if self._state is not expected:
                return False
            self._state = to
            return True

    def _end(self) -> None:
        with self._turn:
            if not self.finished.done():
                self.finished.set_result(None)


def _checkpoint_exception_in(error: BaseException | None) -> CheckpointException | None:
    while error is not None and not isinstance(error, CheckpointException):
        error = error.__cause__
    return error
