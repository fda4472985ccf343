"""Planted defect: a checkpoint is acknowledged when its synchronous part is over, before anything of it was written.

Answers to taking the cut for the checkpoint (C8). A crash, or an error, in the asynchronous part then leaves a
completed checkpoint without its state.
"""

from __future__ import annotations

from typing import Any

from reference_impl.checkpoints.async_checkpoint import AsyncCheckpointRunnable
from reference_impl.checkpoints.subtask_checkpoint_coordinator import SubtaskCheckpointCoordinator
from reference_impl.checkpoints.task_state import TaskStateSnapshot

__all__ = ["build_coordinator"]


class _HastyPart(AsyncCheckpointRunnable):
    def __init__(self, *args: Any, **parts: Any) -> None:
        super().__init__(*args, **parts)
        self._report(TaskStateSnapshot(is_task_finished=self._is_task_finished))

    def _complete(self, snapshot: TaskStateSnapshot) -> None:
        """It has been reported."""


def build_coordinator(**parts: Any) -> SubtaskCheckpointCoordinator:
    """A coordinator that does not wait for what it acknowledges."""
    return SubtaskCheckpointCoordinator(**parts, async_part=_HastyPart)
