"""The states of a handler whose checkpoints are always aligned.

Answers to Flink's `WaitingForFirstBarrier` and `CollectingBarriers`. Invariant: from its barrier to the snapshot
nothing is read from a channel (C22); when the checkpoint is over, taken or not, every channel goes on.
"""

from __future__ import annotations

from reference_impl.barriers.barrier_handler_state import BarrierHandlerController, BarrierHandlerState
from reference_impl.barriers.channel_state import ChannelState
from reference_impl.barriers.input_channel_info import InputChannelInfo
from reference_impl.errors import WrongState
from reference_impl.events import CheckpointBarrier

__all__ = ["CollectingBarriers", "WaitingForFirstBarrier"]


class WaitingForFirstBarrier(BarrierHandlerState):
    """No barrier has come."""

    def barrier_received(
        self,
        controller: BarrierHandlerController,
        channel: InputChannelInfo,
        barrier: CheckpointBarrier,
        *,
        mark_channel_blocked: bool,
    ) -> BarrierHandlerState:
        """Block the channel; with the last barrier take the snapshot."""
        return _collect(
            self._channels, controller, channel, barrier, mark_channel_blocked=mark_channel_blocked
        )

    def abort(self, checkpoint_id: int) -> BarrierHandlerState:
        """A checkpoint of which no barrier came."""
        return self


class CollectingBarriers(WaitingForFirstBarrier):
    """One at least has come, and its channel is blocked."""

    def end_of_partition_received(
        self, controller: BarrierHandlerController, channel: InputChannelInfo, barrier: CheckpointBarrier
    ) -> BarrierHandlerState:
        """It may have been the one that was waited for (C23)."""
        self._channels.channel_finished(channel)
        if not controller.all_barriers_received:
            return self
        controller.trigger_global_checkpoint(barrier)
        return self.abort(barrier.checkpoint_id)

    def abort(self, checkpoint_id: int) -> BarrierHandlerState:
        """Every channel goes on."""
        self._channels.unblock_all_channels()
        return WaitingForFirstBarrier(self._channels)


def _collect(
    channels: ChannelState,
    controller: BarrierHandlerController,
    channel: InputChannelInfo,
    barrier: CheckpointBarrier,
    *,
    mark_channel_blocked: bool,
) -> BarrierHandlerState:
    if barrier.options.is_unaligned:
        raise WrongState(
            f"barrier {barrier.checkpoint_id} in {channel} is unaligned, and this handler only aligns; "
            "use SingleCheckpointBarrierHandler.alternating"
        )
    if mark_channel_blocked:
        channels.block_channel(channel)
    collecting = CollectingBarriers(channels)
    if not controller.all_barriers_received:
        return collecting
    controller.trigger_global_checkpoint(barrier)
    return collecting.abort(barrier.checkpoint_id)
