"""Planted defect: an error of the asynchronous part is kept where nobody looks.

Answers to FLINK-12889 (C9): the checkpoint is neither acknowledged nor declined, and everybody waits for its timeout.
"""

from __future__ import annotations

from typing import Any

from reference_impl.checkpoints.async_checkpoint import AsyncCheckpointRunnable
from reference_impl.checkpoints.subtask_checkpoint_coordinator import SubtaskCheckpointCoordinator

__all__ = ["build_coordinator"]


class _QuietPart(AsyncCheckpointRunnable):
    def _handle_execution_exception(self, error: Exception) -> None:
        self.error = error


def build_coordinator(**parts: Any) -> SubtaskCheckpointCoordinator:
    """A coordinator that does not say that a checkpoint could not be written."""
    return SubtaskCheckpointCoordinator(**parts, async_part=_QuietPart)
