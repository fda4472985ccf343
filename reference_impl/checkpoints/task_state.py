"""The state of one task in a checkpoint: what it hands in for its operators, and what it was restored from.

Answers to Flink's `OperatorSubtaskState`, `TaskStateSnapshot`, `TaskStateManager` and `CheckpointResponder`.
Invariant: a task hands in frozen plain values. A task without state hands in None, so that a changed job need not find
a place for it (C10); a finished one says that it is finished (C19).

Difference from Flink: a finished task that never had state hands in an empty snapshot that is marked as finished;
Flink hands in null, and the coordinator does not learn of the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from reference_impl.checkpoint_events import CheckpointException, CheckpointMetaData, CheckpointMetrics


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
    def handles(self) -> Mapping[str, Any]:
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
        self._responder = responder
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

    def report_task_state_snapshots(
        self, metadata: CheckpointMetaData, metrics: CheckpointMetrics, snapshot: TaskStateSnapshot | None
    ) -> None:
        self._responder.acknowledge_checkpoint(metadata.checkpoint_id, metrics, snapshot)

    def decline_checkpoint(self, checkpoint_id: int, cause: CheckpointException) -> None:
        self._responder.decline_checkpoint(checkpoint_id, cause)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Called for every checkpoint, even when the operators are no longer notified (C13)."""
        self.last_completed_id = checkpoint_id

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self.last_aborted_id = checkpoint_id
