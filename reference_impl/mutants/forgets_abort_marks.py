"""Planted defect: an abort that comes before the barrier leaves no mark.

Answers to FLINK-8871, before which no task heard of aborts (C2, C12). The checkpoint that nobody waits for any
more is taken all the same: its state is written and never released, and its barriers hold up every task
downstream.
"""

from __future__ import annotations

from typing import Any

from reference_impl.checkpoints.subtask_checkpoint_coordinator import (
    AbortedCheckpoints,
    SubtaskCheckpointCoordinator,
)

__all__ = ["build_coordinator"]


class _NoMarks(AbortedCheckpoints):
    def add(self, checkpoint_id: int) -> None:
        """Forgotten."""


def build_coordinator(**parts: Any) -> SubtaskCheckpointCoordinator:
    """A coordinator that forgets what was aborted."""
    coordinator = SubtaskCheckpointCoordinator(**parts)
    coordinator.aborted = _NoMarks(1)
    return coordinator
