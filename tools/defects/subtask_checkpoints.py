"""Defects of a subtask's checkpoints: what it acknowledges, what it does about aborts, and whom it notifies.

Answers to bugs of `SubtaskCheckpointCoordinatorImpl` and `AsyncCheckpointRunnable`. Invariant: each entry is built as a
`SubtaskCheckpointCoordinator` is, and differs from it in one thing.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from functools import partial
from typing import Any

from reference_impl.checkpoint_events import CancelCheckpointMarker, ChannelEvent
from reference_impl.checkpoints.async_checkpoint import AsyncCheckpointRunnable, TaskStateSnapshot
from reference_impl.checkpoints.subtask_checkpoint_coordinator import (
    AbortedCheckpoints,
    CheckpointedChain,
    SubtaskCheckpointCoordinator,
)
from tools.defects.kinds import PropertyDefect

_NO_LIMIT = 2**62


class _AcknowledgesAtOnce(AsyncCheckpointRunnable):
    """Leaves a completed checkpoint without its state if the asynchronous part fails, or the task dies in it."""

    def __init__(self, *args: Any, **parts: Any) -> None:
        super().__init__(*args, **parts)
        self._report(TaskStateSnapshot(is_task_finished=self._is_task_finished))

    def _complete(self, snapshot: TaskStateSnapshot) -> None:
        """Nothing: it was reported before."""


class _ReportsEmptyState(AsyncCheckpointRunnable):
    """Makes a restore look for the state of an operator that has none, so that it cannot be taken out of a job."""

    def _report(self, snapshot: TaskStateSnapshot) -> None:
        self._task_state_store.responder.acknowledge_checkpoint(
            self.metadata.checkpoint_id, self._metrics, snapshot
        )


class _DiscardsReportedState(AsyncCheckpointRunnable):
    """Deletes the state of a completed checkpoint if the task is cancelled before `run` has ended."""

    def _report(self, *args: Any) -> None:
        super()._report(*args)
        if not self._is_running():
            self.close()

    def close(self) -> None:
        self._discard()
        super().close()


class _KeepsErrors(AsyncCheckpointRunnable):
    """Lets the coordinator wait for its timeout: the checkpoint is neither acknowledged nor declined."""

    def _handle_execution_exception(self, error: Exception) -> None:
        self.error = error


class _DropsStateOnAbort(SubtaskCheckpointCoordinator):
    """Deletes state that belongs to the coordinator of the job, for an abort that may be older than its completion."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self._ended: dict[int, AsyncCheckpointRunnable] = {}

    def _unregister(self, part: AsyncCheckpointRunnable) -> None:
        super()._unregister(part)
        self._ended[part.metadata.checkpoint_id] = part

    def _cancel_async_part(self, checkpoint_id: int) -> bool:
        ended = self._ended.pop(checkpoint_id, None)
        if ended is not None:
            ended._discard()  # noqa: SLF001 - the defect
        return super()._cancel_async_part(checkpoint_id)


class _NoMarks(AbortedCheckpoints):
    def add(self, checkpoint_id: int) -> None:
        """Nothing."""


def _without_marks(**parts: Any) -> SubtaskCheckpointCoordinator:
    """Takes an aborted checkpoint: its state is never released, and its barriers hold up every task downstream."""
    coordinator = SubtaskCheckpointCoordinator(**parts)
    coordinator.aborted = _NoMarks(1)
    return coordinator


def _with_all_marks(**parts: Any) -> SubtaskCheckpointCoordinator:
    """Grows without bound in a job whose checkpoints time out now and then before their barriers come."""
    coordinator = SubtaskCheckpointCoordinator(**parts)
    coordinator.aborted = AbortedCheckpoints(_NO_LIMIT)
    return coordinator


class _MuteChain:
    """A chain that broadcasts no cancellation marker."""

    def __init__(self, chain: CheckpointedChain) -> None:
        self._chain = chain

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chain, name)

    def broadcast_event(self, event: ChannelEvent, *, is_priority: bool) -> None:
        if not isinstance(event, CancelCheckpointMarker):
            self._chain.broadcast_event(event, is_priority=is_priority)


class _SilentCoordinator(SubtaskCheckpointCoordinator):
    """Sends neither barrier nor marker, so a task downstream keeps its other channels blocked for ever."""

    def checkpoint_state(self, *args: Any, **parts: Any) -> None:
        more: MutableMapping[str, Any] = {**parts, "operator_chain": _MuteChain(parts["operator_chain"])}
        super().checkpoint_state(*args, **more)


class _NotifiesAlways(SubtaskCheckpointCoordinator):
    """Asks a sink that has been closed to commit, over a connection that is gone."""

    def notify_checkpoint_complete(self, checkpoint_id: int, **parts: Any) -> None:
        super().notify_checkpoint_complete(checkpoint_id, **{**parts, "is_running": lambda: True})


_COORDINATOR = "SubtaskCheckpointCoordinator"

OF_SUBTASK_CHECKPOINTS = (
    PropertyDefect(
        name="acknowledges-at-once",
        about="a checkpoint is acknowledged after its synchronous part, before anything was written",
        mirrors="a cut that is taken for the checkpoint",
        replaces=_COORDINATOR,
        statements=("C8",),
        wrong=partial(SubtaskCheckpointCoordinator, async_part=_AcknowledgesAtOnce),
    ),
    PropertyDefect(
        name="acknowledges-empty-state",
        about="a task without state acknowledges with an empty snapshot",
        mirrors="FLINK-5985",
        replaces=_COORDINATOR,
        statements=("C10",),
        wrong=partial(SubtaskCheckpointCoordinator, async_part=_ReportsEmptyState),
    ),
    PropertyDefect(
        name="discards-acknowledged-state",
        about="a cancellation discards what was written, even if it has been acknowledged",
        mirrors="FLINK-5667",
        replaces=_COORDINATOR,
        statements=("C8",),
        wrong=partial(SubtaskCheckpointCoordinator, async_part=_DiscardsReportedState),
    ),
    PropertyDefect(
        name="loses-async-errors",
        about="an error of the asynchronous part is kept and not reported",
        mirrors="FLINK-12889",
        replaces=_COORDINATOR,
        statements=("C9",),
        wrong=partial(SubtaskCheckpointCoordinator, async_part=_KeepsErrors),
    ),
    PropertyDefect(
        name="late-abort-drops-state",
        about="the notification of an abort discards acknowledged state, however late it comes",
        mirrors="an abort that is taken for an order to clean up",
        replaces=_COORDINATOR,
        statements=("C8", "C38", "C39"),
        wrong=_DropsStateOnAbort,
    ),
    PropertyDefect(
        name="forgets-abort-marks",
        about="an abort that comes before the barrier leaves no mark",
        mirrors="FLINK-8871",
        replaces=_COORDINATOR,
        statements=("C2", "C12"),
        wrong=_without_marks,
    ),
    PropertyDefect(
        name="keeps-abort-marks",
        about="the marks of aborted checkpoints are never dropped",
        mirrors="a set that grows without bound",
        replaces=_COORDINATOR,
        statements=("C12",),
        wrong=_with_all_marks,
    ),
    PropertyDefect(
        name="silent-about-aborted",
        about="for a checkpoint that was aborted before its barrier came, nothing is sent downstream",
        mirrors="FLINK-18238",
        replaces=_COORDINATOR,
        statements=("C2",),
        wrong=_SilentCoordinator,
    ),
    PropertyDefect(
        name="notifies-stopped-operators",
        about="operators are notified of completed checkpoints when the task no longer runs",
        mirrors="FLINK-16383",
        replaces=_COORDINATOR,
        statements=("C13",),
        wrong=_NotifiesAlways,
    ),
)
