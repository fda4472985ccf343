"""The state of a task in a checkpoint, and its asynchronous part: runs all futures, then acknowledges.

Answers to Flink's `OperatorSubtaskState`, `TaskStateSnapshot`, `TaskStateManager` and `CheckpointResponder`.
Invariant: a task hands in frozen plain values. A task without state hands in None, so that a changed job need not find
a place for it (C10); a finished one says that it is finished (C19).

Difference from Flink: a finished task that never had state hands in an empty snapshot that is marked as finished;
Flink hands in null, and the coordinator does not learn of the end.

Answers to Flink's `OperatorSnapshotFutures`, `OperatorSnapshotFinalizer` and `AsyncCheckpointRunnable`. Invariant:
everything is written before the subtask acknowledges, and what is not acknowledged is discarded, once (C8).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from threading import Lock
from typing import Any, Protocol, runtime_checkable

from reference_impl.checkpoint_events import (
    CheckpointException,
    CheckpointFailureReason,
    CheckpointMetaData,
    CheckpointMetrics,
)
from reference_impl.state.snapshots import SnapshotFuture


@runtime_checkable
class StateObject(Protocol):
    """A handle whose state must be deleted when no checkpoint refers to it; plain values are not such handles."""

    def discard_state(self) -> None:
        """Delete the state; called once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSubtaskState:
    """The state of one operator in one subtask; None where there is nothing (C10, S18)."""

    managed_operator_state: Any = None
    """An `OperatorStateHandle`."""
    raw_operator_state: Any = None
    """A list that the operator wrote itself."""
    managed_keyed_state: Any = None
    """A `KeyedStateHandle`."""
    raw_keyed_state: Any = None
    """The timers."""
    input_channel_state: Any = None
    """Elements that were in flight before the task (C27)."""

    @property
    def has_state(self) -> bool:
        return bool(self.handles)

    @property
    def handles(self) -> Mapping[str, object]:
        """The handles that are not None, by field name."""
        return {name: handle for name in self.__slots__ if (handle := getattr(self, name)) is not None}

    def discard_state(self) -> None:
        """Delete the state of handles that refer to some."""
        for handle in self.handles.values():
            if isinstance(handle, StateObject):
                handle.discard_state()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStateSnapshot:
    """The state of all operators of one subtask."""

    operator_states: Mapping[str, OperatorSubtaskState] = field(default_factory=dict)
    """The states by operator id."""
    is_task_deployed_as_finished: bool = False
    """The task had finished before the checkpoint that it was restored from, and did not run (C19)."""
    is_task_finished: bool = False
    """All operators have finished; the task will emit nothing more (C18, C19)."""

    @property
    def has_state(self) -> bool:
        """Whether there is anything to hand in; otherwise the task hands in None (C10)."""
        if self.is_task_deployed_as_finished or self.is_task_finished:
            return True
        return any(state.has_state for state in self.operator_states.values())

    def discard_state(self) -> None:
        for state in self.operator_states.values():
            state.discard_state()


FINISHED_ON_RESTORE = TaskStateSnapshot(is_task_deployed_as_finished=True, is_task_finished=True)
"""Handed in by a task that had finished before its restore (C19)."""


class CheckpointResponder(Protocol):
    """Sends the task's answers to the checkpoint coordinator."""

    def acknowledge_checkpoint(
        self, checkpoint_id: int, metrics: CheckpointMetrics, snapshot: TaskStateSnapshot | None
    ) -> None:
        """The task has written its part; None if it has no state (C10)."""

    def decline_checkpoint(self, checkpoint_id: int, cause: CheckpointException) -> None:
        """The task will not deliver its part."""


class TaskStateStore:
    """The restored state of one subtask, and its way to answer the checkpoint coordinator.

    Mutable: last notifications.

    Answers to Flink's `TaskStateManager` and `CheckpointResponder`. Invariant: each checkpoint is acknowledged or
    declined at most once; one that is still running when the task ends is neither (C8, C9).
    """

    def __init__(
        self,
        *,
        responder: CheckpointResponder,
        restored: TaskStateSnapshot | None = None,
        restored_checkpoint_id: int | None = None,
    ) -> None:
        self.responder = responder
        self._restored = restored
        self.restored_checkpoint_id = restored_checkpoint_id
        """The checkpoint from which the task starts, or None (C45)."""
        self.last_completed_id: int | None = None
        self.last_aborted_id: int | None = None

    @property
    def is_task_deployed_as_finished(self) -> bool:
        """Whether the task had finished before the restored checkpoint and must not run (C19).

        The state assignment decides this for all subtasks of an operator together: if only some had finished, all run
        again.
        """
        return self._restored is not None and self._restored.is_task_deployed_as_finished

    def restored_state(self, operator_id: str) -> OperatorSubtaskState | None:
        """The restored state of an operator, or None."""
        return None if self._restored is None else self._restored.operator_states.get(operator_id)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Called for every checkpoint, even when the operators are no longer notified (C13)."""
        self.last_completed_id = checkpoint_id

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self.last_aborted_id = checkpoint_id


_NAMES = (
    "managed_keyed_state",
    "raw_keyed_state",
    "managed_operator_state",
    "raw_operator_state",
    "input_channel_state",
)
"""The order in which they are finished."""


@dataclass(slots=True, kw_only=True)
class OperatorSnapshotFutures:
    """One operator's part of a checkpoint that is being written; None where there is nothing. Mutable.

    The synchronous part fills it (C6), the asynchronous part finishes it.

    Answers to Flink's `OperatorSnapshotFutures` and `OperatorSnapshotFinalizer`. Invariant: the result of each future
    is either in the `OperatorSubtaskState` that `finalize` returns, or discarded, once (C8).
    """

    managed_keyed_state: SnapshotFuture[Any] | None = None
    raw_keyed_state: SnapshotFuture[Any] | None = None
    managed_operator_state: SnapshotFuture[Any] | None = None
    raw_operator_state: SnapshotFuture[Any] | None = None
    input_channel_state: Future[Any] | None = None
    """The channel state writer ends it, which must happen before `finalize`."""
    _turn: Lock = field(default_factory=Lock, repr=False)
    _discarded: set[str] = field(default_factory=set, repr=False)

    @property
    def channel_states(self) -> list[Future[object]]:
        """The futures that must end before this part can be finished."""
        return [] if self.input_channel_state is None else [self.input_channel_state]

    def run_slice(self) -> bool:
        """Run a small piece of the work; return whether nothing is left."""
        for name in _NAMES:
            future = getattr(self, name)
            if isinstance(future, SnapshotFuture) and not future.is_done:
                future.run_slice()
                return False
        return True

    def finalize(self) -> OperatorSubtaskState:
        """Run all asynchronous parts that have not run. Raises the error of the first that fails (C9)."""
        parts: dict[str, Any] = {}
        for name in _NAMES:
            future: SnapshotFuture[Any] | Future[Any] | None = getattr(self, name)
            if isinstance(future, SnapshotFuture):
                future.run()
            if future is not None:
                parts[name] = future.result()
        return OperatorSubtaskState(**parts)

    def cancel(self) -> None:
        """Cancel what has not ended, and discard each result that exists, once."""
        with self._turn:
            for name in _NAMES:
                future = getattr(self, name)
                if future is None or name in self._discarded:
                    continue
                future.cancel()
                if isinstance(future, SnapshotFuture):
                    handle = future.written
                else:
                    has_result = future.done() and not future.cancelled() and future.exception() is None
                    handle = future.result() if has_result else None
                if isinstance(handle, StateObject):
                    self._discarded.add(name)
                    with suppress(Exception):  # the other handles must be discarded too
                        handle.discard_state()


class AsyncCheckpointState(Enum):
    """State of an asynchronous part (C8)."""

    RUNNING = "running"
    COMPLETED = "completed"
    DISCARDED = "discarded"


class AsyncCheckpointRunnable:
    """Writes all of a subtask's state, then acknowledges the checkpoint. Mutable.

    `run` may be called on any thread, `close` on the task's.

    Answers to Flink's `AsyncCheckpointRunnable`. Invariant: one transition out of RUNNING decides. To COMPLETED: the
    subtask acknowledges, once, and no cancellation may touch what was written (FLINK-5667). To DISCARDED: everything
    is discarded, once, and nothing is acknowledged (C8). In both cases `finished` ends.
    """

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
        """Ends with the asynchronous part, successful or not; it carries no error."""
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
        return self._state

    def run(self) -> None:
        """Write everything and acknowledge; if anything fails, discard everything and decline (C9)."""
        try:
            if self._state is AsyncCheckpointState.RUNNING:
                snapshot = self._finalize()
                if self._moved(AsyncCheckpointState.RUNNING, AsyncCheckpointState.COMPLETED):
                    self._report(snapshot)
        except Exception as error:  # noqa: BLE001 - the task survives the failure (C9)
            self._handle_execution_exception(error)
        finally:
            if self._state is AsyncCheckpointState.DISCARDED:
                self._discard()  # a part that was being written during `close` may have been written since
            self._unregister(self)
            self._end()

    def run_slice(self) -> bool:
        """Write a small piece; return whether that was the last, with everything that `run` does done."""
        if self._state is AsyncCheckpointState.RUNNING:
            for futures in self._snapshots_in_progress.values():
                if not futures.run_slice():
                    return False
        self.run()
        return True

    def close(self) -> None:
        """Cancel and discard everything, unless the checkpoint was acknowledged (C8)."""
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

    def _report(self, snapshot: TaskStateSnapshot) -> None:
        """An empty snapshot is reported as None; a job without the operator could not place it (FLINK-5985)."""
        acknowledged = snapshot if snapshot.has_state else None
        self._task_state_store.responder.acknowledge_checkpoint(
            self.metadata.checkpoint_id, self._metrics, acknowledged
        )

    def _handle_execution_exception(self, error: Exception) -> None:
        """Decline on the first failure; a failure after a cancellation is ignored (FLINK-12889)."""
        was = self._state
        if was is AsyncCheckpointState.DISCARDED or not self._moved(was, AsyncCheckpointState.DISCARDED):
            return
        self._discard()
        if self._is_running():  # otherwise the failure is a result of the task's own end (C9)
            try:
                self._task_state_store.responder.decline_checkpoint(
                    self.metadata.checkpoint_id, self._decline(error)
                )
            except Exception as unhandled:  # noqa: BLE001 - the checkpoint would stay pending unnoticed
                self._fail(unhandled)

    def _decline(self, error: Exception) -> CheckpointException:
        """Take the reason from the `CheckpointException` in the chain of causes, if there is one."""
        original: BaseException | None = error
        while original is not None and not isinstance(original, CheckpointException):
            original = original.__cause__
        reason = original.reason if original else CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION
        what = f"checkpoint {self.metadata.checkpoint_id} of {self._task_name} could not be written: {error}"
        exception = CheckpointException(reason, what)
        exception.__cause__ = error
        return exception

    def _discard(self) -> None:
        for futures in self._snapshots_in_progress.values():
            futures.cancel()

    def _moved(self, expected: AsyncCheckpointState, to: AsyncCheckpointState) -> bool:
        """Compare and set: whether this call changed the state."""
        with self._turn:
            if self._state is not expected:
                return False
            self._state = to
            return True

    def _end(self) -> None:
        with self._turn:
            if not self.finished.done():
                self.finished.set_result(None)
