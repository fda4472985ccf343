"""Planted defect: a task without state acknowledges with an empty snapshot.

Answers to FLINK-5985 (C10): the state of an operator that has none is looked for at the restore, and a job from
which it was taken out cannot be restored.
"""

from __future__ import annotations

from typing import Any

from reference_impl.checkpoints.async_checkpoint import AsyncCheckpointRunnable
from reference_impl.checkpoints.subtask_checkpoint_coordinator import SubtaskCheckpointCoordinator
from reference_impl.checkpoints.task_state import TaskStateSnapshot

__all__ = ["build_coordinator"]


class _EmptyPart(AsyncCheckpointRunnable):
    def _report(self, snapshot: TaskStateSnapshot) -> None:
        self._task_state_store.report_task_state_snapshots(self.metadata, self._metrics, snapshot)


def build_coordinator(**parts: Any) -> SubtaskCheckpointCoordinator:
    """A coordinator that never says None."""
    return SubtaskCheckpointCoordinator(**parts, async_part=_EmptyPart)
