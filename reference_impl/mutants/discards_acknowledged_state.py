"""Planted defect: a cancellation discards what was written, even if it has been acknowledged.

Answers to FLINK-5667, in which a task that was cancelled between the acknowledgement and its own clean-up deleted
the state of a completed checkpoint (C8).
"""

from __future__ import annotations

from typing import Any

from reference_impl.checkpoints.async_checkpoint import AsyncCheckpointRunnable
from reference_impl.checkpoints.subtask_checkpoint_coordinator import SubtaskCheckpointCoordinator

__all__ = ["build_coordinator"]


class _CarelessPart(AsyncCheckpointRunnable):
    def _report(self, *args: Any) -> None:
        super()._report(*args)
        self._acknowledged()

    def _acknowledged(self) -> None:
        """Between the acknowledgement and the end of `run`, when the task is cancelled."""
        if not self._is_running():
            self.close()

    def close(self) -> None:
        self._discard()
        super().close()


def build_coordinator(**parts: Any) -> SubtaskCheckpointCoordinator:
    """A coordinator whose asynchronous parts are closed without a look at where they are."""
    return SubtaskCheckpointCoordinator(**parts, async_part=_CarelessPart)
