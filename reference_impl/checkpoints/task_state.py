"""The state of one task in a checkpoint: what it hands in for the operators of its chain, and was restored with.

Answers to Flink's `OperatorSubtaskState`, `TaskStateSnapshot`, `TaskStateManager` and `CheckpointResponder`. Invariant:
what is handed in are frozen values of plain data. A task without state hands in none, so that nothing has to be found
for it when the job has changed (C10); a finished one says so (C19).

Deviation: a task that has finished, and never had state, hands in an empty snapshot that says that it has finished.
Flink's would be null, and the coordinator would not learn of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, runtime_checkable

from reference_impl.checkpoint_events import CheckpointException, CheckpointMetaData, CheckpointMetrics

__all__ = [
    "FINISHED_ON_RESTORE",
    "CheckpointResponder",
    "OperatorSubtaskState",
    "StateObject",
    "TaskStateSnapshot",
    "TaskStateStore",
]


@runtime_checkable
class StateObject(Protocol):
    """A handle of something that has to be released when no checkpoint refers to it; plain values are none."""

    def discard_state(self) -> None:
        """Release it; called once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSubtaskState:
    """Of one operator in one subtask; None where there is nothing (C10, S18)."""

    managed_operator_state: Any = None
    """An `OperatorStateHandle`."""
    raw_operator_state: Any = None
    """What the operator itself wrote, as a list."""
    managed_keyed_state: Any = None
    """A `KeyedStateHandle`."""
    raw_keyed_state: Any = None
    """Timers, or what the operator itself wrote by key group."""
    input_channel_state: Any = None
    """What was in flight in front of the task (C27)."""
    result_channel_state: Any = None
    """What was in flight behind it."""

    @property
    def has_state(self) -> bool:
        """Whether there is anything at all."""
        return bool(self.handles)

    @property
    def handles(self) -> Mapping[str, Any]:
        """What there is, by the kind of state; a field's name."""
        named = ((each.name, getattr(self, each.name)) for each in fields(self))
        return {name: handle for name, handle in named if handle is not None}

    def discard_state(self) -> None:
        """Release what has to be released."""
        for handle in self.handles.values():
            if isinstance(handle, StateObject):
                handle.discard_state()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStateSnapshot:
    """Of all operators of one subtask."""

    operator_states: Mapping[str, OperatorSubtaskState] = field(default_factory=dict)
    """By the operator's id."""
    is_task_deployed_as_finished: bool = False
    """It had finished before the checkpoint that it was restored from, and did not run (C19)."""
    is_task_finished: bool = False
    """All its operators have finished: it will give out nothing more (C18, C19)."""

    @property
    def has_state(self) -> bool:
        """Whether it says anything; one that does not is handed in as None (C10)."""
        if self.is_task_deployed_as_finished or self.is_task_finished:
            return True
        return any(state.has_state for state in self.operator_states.values())

    def discard_state(self) -> None:
        """Release what has to be released."""
        for state in self.operator_states.values():
            state.discard_state()


FINISHED_ON_RESTORE = TaskStateSnapshot(is_task_deployed_as_finished=True, is_task_finished=True)
"""What a task hands in that was finished already when it was restored (C19)."""


class CheckpointResponder(Protocol):
    """The way to the checkpoint coordinator."""

    def acknowledge_checkpoint(
        self, checkpoint_id: int, metrics: CheckpointMetrics, snapshot: TaskStateSnapshot | None
    ) -> None:
        """The task's part is done; None: it has no state (C10)."""

    def decline_checkpoint(self, checkpoint_id: int, cause: CheckpointException) -> None:
        """The task will not give its part."""


class TaskStateStore:
    """What a subtask was restored with, and whom it tells of its parts of checkpoints.

    Of one subtask, for one attempt. Mutable: remembers the last notifications.

    Answers to Flink's `TaskStateManager` and `CheckpointResponder`. Invariant: of each checkpoint it acknowledges once,
    or declines, never both; what has not ended when the task does is neither (C8, C9).
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
        """From which checkpoint the task begins; None: from none (C45)."""
        self.last_completed_id: int | None = None
        self.last_aborted_id: int | None = None

    @property
    def is_task_deployed_as_finished(self) -> bool:
        """Whether it had finished before the checkpoint that is restored, and is not to run (C19).

        Whoever assigns the states says so, of all subtasks of an operator together: where only some had finished, all
        run again.
        """
        return self._restored is not None and self._restored.is_task_deployed_as_finished

    def restored_state(self, operator_id: str) -> OperatorSubtaskState | None:
        """What the checkpoint holds for an operator; None: nothing."""
        return None if self._restored is None else self._restored.operator_states.get(operator_id)

    def report_task_state_snapshots(
        self, metadata: CheckpointMetaData, metrics: CheckpointMetrics, snapshot: TaskStateSnapshot | None
    ) -> None:
        """Acknowledge."""
        self._responder.acknowledge_checkpoint(metadata.checkpoint_id, metrics, snapshot)

    def decline_checkpoint(self, checkpoint_id: int, cause: CheckpointException) -> None:
        """Decline."""
        self._responder.decline_checkpoint(checkpoint_id, cause)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Told always, even when the operators no longer are (C13)."""
        self.last_completed_id = checkpoint_id

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """The same."""
        self.last_aborted_id = checkpoint_id
