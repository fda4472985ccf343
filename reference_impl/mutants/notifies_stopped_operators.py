"""Planted defect: operators hear of completed checkpoints when the task no longer runs.

Answers to FLINK-16383 (C13): a sink that had been closed was asked to commit, over a connection that was gone.
"""

from __future__ import annotations

from typing import Any

from reference_impl.checkpoints.subtask_checkpoint_coordinator import SubtaskCheckpointCoordinator

__all__ = ["build_coordinator"]


class _TellingCoordinator(SubtaskCheckpointCoordinator):
    def notify_checkpoint_complete(self, checkpoint_id: int, **parts: Any) -> None:
        super().notify_checkpoint_complete(checkpoint_id, **{**parts, "is_running": lambda: True})


def build_coordinator(**parts: Any) -> SubtaskCheckpointCoordinator:
    """A coordinator that asks nobody whether the task runs."""
    return _TellingCoordinator(**parts)
