"""Planted defect: a cancellation ends whatever checkpoint is pending.

Answers to a handler that does not look at the marker's number (C24): one that comes late ends a newer checkpoint,
whose barriers are all on their way.
"""

from __future__ import annotations

from reference_impl.checkpoint_events import (
    CancelCheckpointMarker,
    CheckpointException,
    CheckpointFailureReason,
)
from reference_impl.checkpoints.channels import InputChannelInfo
from reference_impl.checkpoints.single_barrier_handler import SingleCheckpointBarrierHandler

__all__ = ["LateCancelAbortsNewer"]


class LateCancelAbortsNewer(SingleCheckpointBarrierHandler):
    """Takes every marker for one of the pending checkpoint."""

    def process_cancellation_barrier(self, marker: CancelCheckpointMarker, channel: InputChannelInfo) -> None:
        """Give up what is pending."""
        if self.is_checkpoint_pending and marker.checkpoint_id < self.latest_checkpoint_id:
            reason = CheckpointFailureReason.CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER
            self._abort(self.latest_checkpoint_id, CheckpointException(reason))
        else:
            super().process_cancellation_barrier(marker, channel)
