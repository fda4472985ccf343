"""The states of a barrier handler: what it does with the next barrier, depending on those that have come.

Answers to Flink's `BarrierHandlerState` with its `Controller`, to `WaitingForFirstBarrier` and `CollectingBarriers`,
whose checkpoints are always aligned, and to `AlternatingWaitingForFirstBarrier`, `AlternatingCollectingBarriers` and
their two unaligned counterparts, whose checkpoints begin aligned and may become unaligned, or are so from the start.
Invariant: a state answers with the one that follows, and keeps nothing but the channels; who counts, and who tells the
task, is the controller. Before the snapshot a channel that has given out its barrier is blocked (C22); when an aligned
checkpoint is over, taken or not, every channel goes on. From the snapshot of an unaligned one on none is blocked, and
what a barrier has yet to overtake is captured (C27).

Deviation: with the timeout's snapshot all channels go on at once, as C26 says; Flink keeps those that had been blocked
until the last barrier is there. Savepoints are aligned here too, so there is no handler for unaligned ones alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

from reference_impl.checkpoint_events import CheckpointBarrier
from reference_impl.checkpoints.barrier_handler import ChannelState
from reference_impl.checkpoints.channels import InputChannelInfo
from reference_impl.errors import WrongState

__all__ = [
    "AlternatingCollectingBarriers",
    "AlternatingCollectingBarriersUnaligned",
    "AlternatingWaitingForFirstBarrier",
    "AlternatingWaitingForFirstBarrierUnaligned",
    "BarrierHandlerController",
    "BarrierHandlerState",
    "CollectingBarriers",
    "WaitingForFirstBarrier",
]


class BarrierHandlerController(Protocol):
    """The barrier handler, as its states see it."""

    @property
    def all_barriers_received(self) -> bool:
        """Whether no channel's barrier is waited for."""

    def is_timed_out(self, barrier: CheckpointBarrier) -> bool:
        """Whether more than its timeout has passed since it was triggered (C26)."""

    def init_input_checkpoint(self, barrier: CheckpointBarrier) -> None:
        """Tell the task's checkpoints that capturing may begin."""

    def trigger_global_checkpoint(self, barrier: CheckpointBarrier) -> None:
        """Have the task take its snapshot."""


class BarrierHandlerState(ABC):
    """Which barriers have come, and how they are brought together. Each answers with the state that follows.

    What is not abstract is what a state does for which the occasion means nothing.
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
        """A barrier stands in the channel, unread: of no interest where nothing overtakes, or all has."""
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
        """It was read; the channel counts as aligned already."""

    def end_of_partition_received(
        self, controller: BarrierHandlerController, channel: InputChannelInfo, barrier: CheckpointBarrier
    ) -> BarrierHandlerState:
        """The channel has ended and counts as aligned; `barrier` is the pending checkpoint's.

        Nothing changes while its first barrier is still to come.
        """
        self._channels.channel_finished(channel)
        return self

    def aligned_checkpoint_timeout(
        self, controller: BarrierHandlerController, barrier: CheckpointBarrier
    ) -> BarrierHandlerState:
        """The alignment has taken too long: of no interest where it may, or where none is under way any more."""
        return self

    @abstractmethod
    def abort(self, checkpoint_id: int) -> BarrierHandlerState:
        """The checkpoint is over without a snapshot, or without all that it should have captured."""


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


class AlternatingWaitingForFirstBarrier(BarrierHandlerState):
    """No barrier has come; some may be announced."""

    def announcement_received(
        self,
        controller: BarrierHandlerController,
        channel: InputChannelInfo,
        barrier: CheckpointBarrier,
        sequence_number: int,
    ) -> BarrierHandlerState:
        """Remember it, for the timeout, which may be over already."""
        self._channels.add_seen_announcement(channel, sequence_number)
        return self._unless_timed_out(controller, barrier)

    def barrier_received(
        self,
        controller: BarrierHandlerController,
        channel: InputChannelInfo,
        barrier: CheckpointBarrier,
        *,
        mark_channel_blocked: bool,
    ) -> BarrierHandlerState:
        """An unaligned one cuts now; an aligned one blocks, and cuts if it is the last or if it comes too late."""
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
        """The first barrier is still to come, of a channel in which it was announced."""
        self._channels.channel_finished(channel)
        return self._unless_timed_out(controller, barrier)

    def aligned_checkpoint_timeout(
        self, controller: BarrierHandlerController, barrier: CheckpointBarrier
    ) -> BarrierHandlerState:
        """What was announced overtakes; the first that is read cuts."""
        self._channels.prioritize_all_announcements()
        return AlternatingWaitingForFirstBarrierUnaligned(self._channels)

    def abort(self, checkpoint_id: int) -> BarrierHandlerState:
        """Every channel goes on; some may have begun to capture, for a cut that another refused (FLINK-20331)."""
        self._channels.stop_capturing(checkpoint_id)
        return _begin_anew(self._channels)

    def _unless_timed_out(
        self, controller: BarrierHandlerController, barrier: CheckpointBarrier
    ) -> BarrierHandlerState:
        if controller.is_timed_out(barrier):
            return self.aligned_checkpoint_timeout(controller, barrier)
        return self


class AlternatingCollectingBarriers(AlternatingWaitingForFirstBarrier):
    """One at least has come, and its channel is blocked."""

    def end_of_partition_received(
        self, controller: BarrierHandlerController, channel: InputChannelInfo, barrier: CheckpointBarrier
    ) -> BarrierHandlerState:
        """It may have been the one that was waited for (C23)."""
        self._channels.channel_finished(channel)
        if controller.all_barriers_received:
            return _take_aligned(self._channels, controller, barrier)
        return self._unless_timed_out(controller, barrier)

    def aligned_checkpoint_timeout(
        self, controller: BarrierHandlerController, barrier: CheckpointBarrier
    ) -> BarrierHandlerState:
        """A barrier is there to cut with."""
        return _cut(self._channels, controller, barrier)


class AlternatingWaitingForFirstBarrierUnaligned(BarrierHandlerState):
    """The timeout was over before any barrier was read; those that were announced overtake."""

    def announcement_received(
        self,
        controller: BarrierHandlerController,
        channel: InputChannelInfo,
        barrier: CheckpointBarrier,
        sequence_number: int,
    ) -> BarrierHandlerState:
        """It overtakes at once."""
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
        """The first one cuts; that it came aligned has stopped its channel, which goes on."""
        if mark_channel_blocked and not barrier.options.is_unaligned:
            self._channels.block_channel(channel)
        return _cut(self._channels, controller, barrier)

    def abort(self, checkpoint_id: int) -> BarrierHandlerState:
        """Every channel goes on, and what was captured is of no use."""
        self._channels.stop_capturing(checkpoint_id)
        return _begin_anew(self._channels)


class AlternatingCollectingBarriersUnaligned(AlternatingWaitingForFirstBarrierUnaligned):
    """The snapshot is taken; channels whose barrier has not come are captured."""

    def barrier_received(
        self,
        controller: BarrierHandlerController,
        channel: InputChannelInfo,
        barrier: CheckpointBarrier,
        *,
        mark_channel_blocked: bool,
    ) -> BarrierHandlerState:
        """One less to wait for; nobody is blocked by it, though its channel may have stopped by itself."""
        if mark_channel_blocked and not barrier.options.is_unaligned:
            self._channels.resume_channel(channel)
        return self._unless_complete(controller, barrier)

    def end_of_partition_received(
        self, controller: BarrierHandlerController, channel: InputChannelInfo, barrier: CheckpointBarrier
    ) -> BarrierHandlerState:
        """What it held was captured when the barrier cut."""
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
    """All barriers have come in time: nothing is in flight before any of them."""
    controller.init_input_checkpoint(barrier)
    controller.trigger_global_checkpoint(barrier)
    return _begin_anew(channels)


def _cut(
    channels: ChannelState, controller: BarrierHandlerController, barrier: CheckpointBarrier
) -> BarrierHandlerState:
    """Take the snapshot now, and capture what the other barriers have yet to overtake (C26, C27)."""
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
