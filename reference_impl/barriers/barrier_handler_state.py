"""What a barrier means, depending on those that have come.

Answers to Flink's `BarrierHandlerState` and its `Controller`. Invariant: a state answers with the one that follows, and
keeps nothing but the channels; who counts, and who tells the task, is the controller.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

from reference_impl.barriers.channel_state import ChannelState
from reference_impl.barriers.input_channel_info import InputChannelInfo
from reference_impl.events import CheckpointBarrier

__all__ = ["BarrierHandlerController", "BarrierHandlerState"]


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
