"""Planted defect: the end of a channel does not count as its barrier.

Answers to a barrier that is dropped at the end of a partition (C23): a checkpoint that waits for a channel which has
ended waits for ever, or until a newer one comes.
"""

from __future__ import annotations

from reference_impl.checkpoints.channels import InputChannelInfo
from reference_impl.checkpoints.single_barrier_handler import SingleCheckpointBarrierHandler

__all__ = ["EndLosesBarrier"]


class EndLosesBarrier(SingleCheckpointBarrierHandler):
    """Waits for channels that have ended."""

    def process_end_of_partition(self, channel: InputChannelInfo) -> None:
        """One channel less, for the next checkpoint."""
        self._open.pop(channel, None)
