"""The states of a barrier handler: how it reacts to the next barrier, depending on those that have come.

Answers to Flink's `BarrierHandlerState` with its `Controller`; to `WaitingForFirstBarrier` and `CollectingBarriers`,
for checkpoints that are always aligned; and to `AlternatingWaitingForFirstBarrier`, `AlternatingCollectingBarriers`
and their unaligned counterparts, for checkpoints that may start or become unaligned. Invariant: a state returns the
next state and stores nothing but the channels; the controller counts barriers and calls the task. Before the snapshot,
a channel that has delivered its barrier is blocked (C22); when an aligned checkpoint ends, with or without a snapshot,
all channels are resumed. After the snapshot of an unaligned checkpoint no channel is blocked, and what the missing
barriers overtake is captured (C27).

Difference from Flink: the snapshot after a timeout resumes all channels at once, as C26 says; Flink keeps blocked ones
blocked until the last barrier. Savepoints are aligned here too, so there is no handler for unaligned checkpoints only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

from reference_impl.checkpoint_events import CheckpointBarrier
from reference_impl.checkpoints.barrier_handler import ChannelState
from reference_impl.checkpoints.channels import InputChannelInfo
from reference_impl.errors import WrongState


class BarrierHandlerController(Protocol):
    """The barrier handler, as its states use it."""

    @property
    def all_barriers_received(self) -> bool: ...

    def is_timed_out(self, barrier: CheckpointBarrier) -> bool:
        """Whether more than the barrier's alignment timeout has passed since its trigger (C26)."""

    def init_input_checkpoint(self, barrier: CheckpointBarrier) -> None:
        """Tell the checkpoint coordinator that capturing may begin."""

    def trigger_global_checkpoint(self, barrier: CheckpointBarrier) -> None:
        """Make the task take its snapshot."""


class BarrierHandlerState(ABC):
    """Which barriers have come and how they are aligned. Each method returns the next state.

    The methods that are not abstract have the behaviour of states to which the event does not matter.
    """

    def __init__(self, channels: ChannelState) -> None:
        self._channels = channels

    def announcement_received(
        self,
        controller: BarrierHandlerController,
        channel: InputChannelInfo,
        barrier: CheckpointBarrier,
        sequence_number: int,
    ) -> BarrierHandlerState:
        """A barrier waits unread in the channel. Ignored where nothing may overtake, or everything has overtaken."""
        return self

    @abstractmethod
    def barrier_received(
        self,
        controller: BarrierHandlerController,
        channel: InputChannelInfo,
        barrier: CheckpointBarrier,
        *,
        mark_channel_blocked: bool,
    ) -> BarrierHandlerState:
        """A barrier was read; the controller has already counted its channel."""

    def end_of_partition_received(
        self, controller: BarrierHandlerController, channel: InputChannelInfo, barrier: CheckpointBarrier
    ) -> BarrierHandlerState:
        """The channel has ended and was counted; `barrier` is the pending checkpoint's."""
        self._channels.channel_finished(channel)
        return self

    def aligned_checkpoint_timeout(
        self, controller: BarrierHandlerController, barrier: CheckpointBarrier
    ) -> BarrierHandlerState:
        """The alignment took too long. Ignored where there is no timeout, or no alignment is running."""
        return self

    @abstractmethod
    def abort(self, checkpoint_id: int) -> BarrierHandlerState:
        """The checkpoint has ended without a snapshot, or without all the data it should have captured."""


class WaitingForFirstBarrier(BarrierHandlerState):
    """The state before the first barrier."""

    def barrier_received(
        self,
        controller: BarrierHandlerController,
        channel: InputChannelInfo,
        barrier: CheckpointBarrier,
        *,
        mark_channel_blocked: bool,
    ) -> BarrierHandlerState:
        """Block the channel; on the last barrier take the snapshot."""
        return _collect(
            self._channels, controller, channel, barrier, mark_channel_blocked=mark_channel_blocked
        )

    def abort(self, checkpoint_id: int) -> BarrierHandlerState:
        return self


class CollectingBarriers(WaitingForFirstBarrier):
    """The state from the first barrier on; channels whose barrier has arrived are blocked."""

    def end_of_partition_received(
        self, controller: BarrierHandlerController, channel: InputChannelInfo, barrier: CheckpointBarrier
    ) -> BarrierHandlerState:
        """The channel may have been the last one that was missing (C23)."""
        self._channels.channel_finished(channel)
        if not controller.all_barriers_received:
            return self
        controller.trigger_global_checkpoint(barrier)
        return self.abort(barrier.checkpoint_id)

    def abort(self, checkpoint_id: int) -> BarrierHandlerState:
        """Resume all channels."""
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
            f"barrier {barrier.checkpoint_id} in {channel} is unaligned, but this handler only aligns; "
            "use SingleCheckpointBarrierHandler.alternating"
        )
    if mark_channel_blocked:
        channels.block_channel(channel)
    collecting = CollectingBarriers(channels)
    if not controller.all_barriers_received:
        return collecting
    controller.trigger_global_checkpoint(barrier)
    return collecting.abort(barrier.checkpoint_id)


class AlternatingWaitingForFirstBarrier(BarrierHandlerState):
    """The state before the first barrier; some may be announced."""

    def announcement_received(
        self,
        controller: BarrierHandlerController,
        channel: InputChannelInfo,
        barrier: CheckpointBarrier,
        sequence_number: int,
    ) -> BarrierHandlerState:
        """Record it. If the timeout has passed already, the timer's mail lets the barrier overtake."""
        self._channels.add_seen_announcement(channel, sequence_number)
        return self

    def barrier_received(
        self,
        controller: BarrierHandlerController,
        channel: InputChannelInfo,
        barrier: CheckpointBarrier,
        *,
        mark_channel_blocked: bool,
    ) -> BarrierHandlerState:
        """An unaligned barrier takes the snapshot; an aligned one blocks, and takes it if it is last or late."""
        self._channels.remove_seen_announcement(channel)
        if barrier.options.is_unaligned:
            return _cut(self._channels, controller, barrier)
        if mark_channel_blocked:
            self._channels.block_channel(channel)
        if controller.all_barriers_received:
            return _take_aligned(self._channels, controller, barrier)
        if controller.is_timed_out(barrier):
            return _cut(self._channels, controller, barrier)
        return AlternatingCollectingBarriers(self._channels)

    def end_of_partition_received(
        self, controller: BarrierHandlerController, channel: InputChannelInfo, barrier: CheckpointBarrier
    ) -> BarrierHandlerState:
        """The first barrier is still to come, from a channel that announced it."""
        self._channels.channel_finished(channel)
        return self

    def aligned_checkpoint_timeout(
        self, controller: BarrierHandlerController, barrier: CheckpointBarrier
    ) -> BarrierHandlerState:
        """Announced barriers overtake; the first that is read takes the snapshot."""
        self._channels.prioritize_all_announcements()
        return AlternatingWaitingForFirstBarrierUnaligned(self._channels)

    def abort(self, checkpoint_id: int) -> BarrierHandlerState:
        """Resume all channels and stop capturing, which a refused snapshot may have started (FLINK-20331)."""
        self._channels.stop_capturing(checkpoint_id)
        return _begin_anew(self._channels)


class AlternatingCollectingBarriers(AlternatingWaitingForFirstBarrier):
    """The state from the first barrier on; channels whose barrier has arrived are blocked."""

    def end_of_partition_received(
        self, controller: BarrierHandlerController, channel: InputChannelInfo, barrier: CheckpointBarrier
    ) -> BarrierHandlerState:
        """The channel may have been the last one that was missing (C23); if not, a passed timeout acts here too."""
        self._channels.channel_finished(channel)
        if controller.all_barriers_received:
            return _take_aligned(self._channels, controller, barrier)
        if controller.is_timed_out(barrier):
            return self.aligned_checkpoint_timeout(controller, barrier)
        return self

    def aligned_checkpoint_timeout(
        self, controller: BarrierHandlerController, barrier: CheckpointBarrier
    ) -> BarrierHandlerState:
        """Take the snapshot now."""
        return _cut(self._channels, controller, barrier)


class AlternatingWaitingForFirstBarrierUnaligned(BarrierHandlerState):
    """The timeout passed before any barrier was read; announced barriers overtake."""

    def announcement_received(
        self,
        controller: BarrierHandlerController,
        channel: InputChannelInfo,
        barrier: CheckpointBarrier,
        sequence_number: int,
    ) -> BarrierHandlerState:
        """Let the barrier overtake at once."""
        self._channels.prioritize(channel, sequence_number)
        return self

    def barrier_received(
        self,
        controller: BarrierHandlerController,
        channel: InputChannelInfo,
        barrier: CheckpointBarrier,
        *,
        mark_channel_blocked: bool,
    ) -> BarrierHandlerState:
        """The first barrier takes the snapshot; an aligned one has blocked its channel, which is then resumed."""
        if mark_channel_blocked and not barrier.options.is_unaligned:
            self._channels.block_channel(channel)
        return _cut(self._channels, controller, barrier)

    def abort(self, checkpoint_id: int) -> BarrierHandlerState:
        """Resume all channels and stop capturing."""
        self._channels.stop_capturing(checkpoint_id)
        return _begin_anew(self._channels)


class AlternatingCollectingBarriersUnaligned(AlternatingWaitingForFirstBarrierUnaligned):
    """The snapshot is taken; channels whose barrier is missing are being captured."""

    def barrier_received(
        self,
        controller: BarrierHandlerController,
        channel: InputChannelInfo,
        barrier: CheckpointBarrier,
        *,
        mark_channel_blocked: bool,
    ) -> BarrierHandlerState:
        """One barrier less is missing; if it was aligned, its channel has blocked itself and is resumed."""
        if mark_channel_blocked and not barrier.options.is_unaligned:
            self._channels.resume_channel(channel)
        return self._unless_complete(controller, barrier)

    def end_of_partition_received(
        self, controller: BarrierHandlerController, channel: InputChannelInfo, barrier: CheckpointBarrier
    ) -> BarrierHandlerState:
        """What the channel held was captured already."""
        self._channels.channel_finished(channel)
        return self._unless_complete(controller, barrier)

    def _unless_complete(
        self, controller: BarrierHandlerController, barrier: CheckpointBarrier
    ) -> BarrierHandlerState:
        if not controller.all_barriers_received:
            return self
        self._channels.stop_capturing(barrier.checkpoint_id)
        return _begin_anew(self._channels)


def _take_aligned(
    channels: ChannelState, controller: BarrierHandlerController, barrier: CheckpointBarrier
) -> BarrierHandlerState:
    """All barriers came in time: no data are in flight before them."""
    controller.init_input_checkpoint(barrier)
    controller.trigger_global_checkpoint(barrier)
    return _begin_anew(channels)


def _cut(
    channels: ChannelState, controller: BarrierHandlerController, barrier: CheckpointBarrier
) -> BarrierHandlerState:
    """Take the snapshot now, and capture what the missing barriers will overtake (C26, C27)."""
    channels.prioritize_all_announcements()
    unaligned = barrier.as_unaligned()
    controller.init_input_checkpoint(unaligned)
    channels.start_capturing(unaligned)
    controller.trigger_global_checkpoint(unaligned)
    channels.unblock_all_channels()
    if controller.all_barriers_received:
        channels.stop_capturing(barrier.checkpoint_id)
        return _begin_anew(channels)
    return AlternatingCollectingBarriersUnaligned(channels)


def _begin_anew(channels: ChannelState) -> BarrierHandlerState:
    channels.unblock_all_channels()
    channels.forget_announcements()
    return AlternatingWaitingForFirstBarrier(channels)
