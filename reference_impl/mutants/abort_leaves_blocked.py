"""Planted defect: when a checkpoint is given up its channels stay blocked.

Answers to an alignment that never unblocks after an abort (C21, C24, C25; FLINK-18238 in its effect): what
waits in those channels is never read.
"""

from __future__ import annotations

from reference_impl.checkpoint_events import CheckpointException
from reference_impl.checkpoints.barrier_handler import ChannelState
from reference_impl.checkpoints.single_barrier_handler import SingleCheckpointBarrierHandler

__all__ = ["AbortLeavesBlocked"]


class _StaysBlocked(ChannelState):
    gives_up = False

    def unblock_all_channels(self) -> None:
        if not self.gives_up:
            super().unblock_all_channels()


class AbortLeavesBlocked(SingleCheckpointBarrierHandler):
    """Goes on without the channels that waited."""

    channel_state = _StaysBlocked

    def _abort(self, cancelled_id: int, exception: CheckpointException) -> None:
        assert isinstance(self._channels, _StaysBlocked)
        self._channels.gives_up = True
        super()._abort(cancelled_id, exception)
        self._channels.gives_up = False
