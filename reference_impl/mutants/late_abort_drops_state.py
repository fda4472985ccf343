"""Planted defect: the notification of an abort discards what was written for the checkpoint, however late it comes.

Answers to taking an abort for an order to clean up (C8, C38, C39). The state of a checkpoint that was
acknowledged is the coordinator's: its notification of an abort may have been on its way since before a later one
completed with that state.
"""

from __future__ import annotations

from typing import Any

from reference_impl.checkpoints.async_checkpoint import AsyncCheckpointRunnable
from reference_impl.checkpoints.subtask_checkpoint_coordinator import SubtaskCheckpointCoordinator

__all__ = ["build_coordinator"]


class _RememberingCoordinator(SubtaskCheckpointCoordinator):
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


def build_coordinator(**parts: Any) -> SubtaskCheckpointCoordinator:
    """A coordinator that cleans up after what it has already handed over."""
    return _RememberingCoordinator(**parts)
