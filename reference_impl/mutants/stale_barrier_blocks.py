"""Planted defect: a barrier that nobody waits for leaves its channel blocked.

Answers to the resumption that C20 asks for: the channel has stopped behind its aligned barrier by itself, and an
ignored barrier is not a reason to leave it so.
"""

from __future__ import annotations

from reference_impl.checkpoint_events import CheckpointBarrier
from reference_impl.checkpoints.channels import InputChannelInfo
from reference_impl.checkpoints.single_barrier_handler import SingleCheckpointBarrierHandler

__all__ = ["StaleBarrierBlocks"]


class StaleBarrierBlocks(SingleCheckpointBarrierHandler):
    """Ignores an old barrier, and its channel with it."""

    def process_barrier(
        self, barrier: CheckpointBarrier, channel: InputChannelInfo, *, is_rpc_triggered: bool = False
    ) -> None:
        """Count it, if it is not old."""
        if not self._is_obsolete(barrier.checkpoint_id):
            super().process_barrier(barrier, channel, is_rpc_triggered=is_rpc_triggered)
