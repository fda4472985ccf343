"""Planted defect: what an unaligned barrier overtakes is not captured.

Answers to an unaligned checkpoint without channel state (C27): the records in flight are in no operator's
state and in no snapshot, and after a restore they are gone (C28).
"""

from __future__ import annotations

from reference_impl.checkpoint_events import CheckpointBarrier
from reference_impl.checkpoints.channels import InputChannel

__all__ = ["CapturesNothing"]


class CapturesNothing(InputChannel):
    """Lets the barrier overtake, and that is all."""

    def checkpoint_started(self, barrier: CheckpointBarrier) -> None:
        """Nothing is in flight, as far as this channel knows."""
