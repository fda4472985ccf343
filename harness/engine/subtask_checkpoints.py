"""The checkpoints of one subtask: hands each acknowledged snapshot to the harness's coordination.

Answers to Flink's `SubtaskCheckpointCoordinatorImpl` with a `CheckpointResponder`. Invariant: the coordination gets the
snapshot after the acknowledgement has returned, so that its errors (fenced, sink lost) fail the task. An error inside
the acknowledgement would only decline the checkpoint, and the task would go on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from reference_impl.checkpoint_events import (
    CheckpointException,
    CheckpointMetaData,
    CheckpointMetrics,
    CheckpointOptions,
)
from reference_impl.checkpoints.subtask_checkpoint_coordinator import (
    CheckpointedChain,
    SubtaskCheckpointCoordinator,
)
from reference_impl.checkpoints.task_state import TaskStateSnapshot, TaskStateStore


class HandOver(Protocol):
    """Receives the snapshots that the task acknowledges."""

    def __call__(self, number: int, snapshot: TaskStateSnapshot, *, is_last: bool) -> None:
        """Takes the subtask's part of checkpoint `number`; `is_last`: the input has ended. Its errors fail the task."""


class HandedCheckpoints(SubtaskCheckpointCoordinator):
    """Ends the asynchronous part before the next mail, so a checkpoint is one step of the task. Mutable."""

    def __init__(
        self,
        *,
        task_name: str,
        fail: Callable[[BaseException], None],
        hand_over: HandOver,
        completed: Callable[[int], None],
        run_async: Callable[[Callable[[], None]], None],
    ) -> None:
        """`completed` is called once for each completed checkpoint.

        `run_async` runs the asynchronous part of a snapshot, and what follows it, before the next mail.
        """
        super().__init__(
            task_name=task_name,
            task_state_store=TaskStateStore(responder=self),
            executor=self._take_async_part,
            fail=fail,
        )
        self._run_async = run_async
        self._async_parts: list[Callable[[], Any]] = []
        self._hand_over = hand_over
        self._completed = completed
        self._acknowledged: TaskStateSnapshot | None = None
        self._declined: CheckpointException | None = None

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
        """Takes the snapshot; its asynchronous part hands it over."""
        super().checkpoint_state(
            metadata,
            options,
            metrics,
            operator_chain=operator_chain,
            is_task_finished=is_task_finished,
            is_running=is_running,
        )
        self._run_async(partial(self._finish, metadata.checkpoint_id, is_last=is_task_finished))

    def _take_async_part(self, action: Callable[[], Any]) -> None:
        self._async_parts.append(action)

    def _finish(self, number: int, *, is_last: bool) -> None:
        parts, self._async_parts = self._async_parts, []
        for part in parts:
            part()
        declined, self._declined = self._declined, None
        if declined is not None:
            raise declined.__cause__ or declined  # no one would retry the checkpoint, so the task fails
        acknowledged, self._acknowledged = self._acknowledged, None
        if acknowledged is not None:
            self._hand_over(number, acknowledged, is_last=is_last)

    def notify_checkpoint_complete(
        self, checkpoint_id: int, *, operator_chain: CheckpointedChain, is_running: Callable[[], bool]
    ) -> None:
        """Notifies the operators, then the coordination, whose sink is downstream of them."""
        super().notify_checkpoint_complete(
            checkpoint_id, operator_chain=operator_chain, is_running=is_running
        )
        if is_running():
            self._completed(checkpoint_id)

    def acknowledge_checkpoint(
        self, checkpoint_id: int, metrics: CheckpointMetrics, snapshot: TaskStateSnapshot | None
    ) -> None:
        """Keeps the snapshot until `_finish` hands it over."""
        del metrics
        assert snapshot is not None, f"the lookups have state in every checkpoint, {checkpoint_id} too"
        self._acknowledged = snapshot

    def decline_checkpoint(self, checkpoint_id: int, cause: CheckpointException) -> None:
        """Keeps the cause until `_finish` raises it."""
        del checkpoint_id
        self._declined = cause
