"""Planted defect: the marks of aborted checkpoints are never dropped.

Answers to the unbounded set that C12 rules out: a task that runs for months, and whose checkpoints time out now
and then before their barriers come, grows.
"""

from __future__ import annotations

from typing import Any

from reference_impl.checkpoints.subtask_checkpoint_coordinator import (
    AbortedCheckpoints,
    SubtaskCheckpointCoordinator,
)

__all__ = ["build_coordinator"]

_NO_LIMIT = 2**62


def build_coordinator(**parts: Any) -> SubtaskCheckpointCoordinator:
    """A coordinator that remembers every abort."""
    coordinator = SubtaskCheckpointCoordinator(**parts)
    coordinator.aborted = AbortedCheckpoints(_NO_LIMIT)
    return coordinator
