"""Planted defect: what comes behind the barrier is captured as if it were in flight before it.

Answers to a channel that captures until the last barrier of all is there, and not until its own (C27): after a
restore those records are there twice, once from the snapshot and once from the sender (C28).
"""

from __future__ import annotations

from reference_impl.checkpoint_events import CheckpointBarrier
from reference_impl.checkpoints.channels import ChannelElement, InputChannel

__all__ = ["CapturesBehindBarrier"]


class CapturesBehindBarrier(InputChannel):
    """Goes on capturing."""

    def put(self, element: ChannelElement) -> None:
        """It comes over the wire; a barrier of the checkpoint that captures does not end it."""
        capturing = self._capturing
        super().put(element)
        if isinstance(element, CheckpointBarrier) and element.checkpoint_id == capturing:
            self._capturing = capturing
