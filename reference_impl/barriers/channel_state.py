"""Which channels a checkpoint has blocked, and in which a barrier was announced.

Answers to Flink's `ChannelState`. Invariant: a channel that is blocked is known here, so all are resumed in one go; an
announcement is forgotten when its barrier is read, is made a priority event, or is waited for no more.
"""

from __future__ import annotations

from collections.abc import Sequence

from reference_impl.barriers.checkpoint_barrier_handler import CheckpointableInput
from reference_impl.barriers.input_channel_info import InputChannelInfo
from reference_impl.events import CheckpointBarrier

__all__ = ["ChannelState"]


class ChannelState:
    """The channels of all inputs. Mutable."""

    def __init__(self, inputs: Sequence[CheckpointableInput]) -> None:
        self._inputs = {one.channel_infos[0].gate_idx: one for one in inputs if one.channel_infos}
        self._blocked: dict[InputChannelInfo, None] = {}
        self._announced: dict[InputChannelInfo, int] = {}

    @property
    def blocked_channels(self) -> tuple[InputChannelInfo, ...]:
        """In the order in which they were blocked."""
        return tuple(self._blocked)

    def block_channel(self, channel: InputChannelInfo) -> None:
        """It has given out its barrier, and waits for the others (C22)."""
        self._inputs[channel.gate_idx].block_consumption(channel)
        self._blocked[channel] = None

    def resume_channel(self, channel: InputChannelInfo) -> None:
        """Its barrier is of no checkpoint that waits (C20)."""
        self._blocked.pop(channel, None)
        self._inputs[channel.gate_idx].resume_consumption(channel)

    def unblock_all_channels(self) -> None:
        """Nobody waits for anybody."""
        blocked, self._blocked = self._blocked, {}
        for channel in blocked:
            self._inputs[channel.gate_idx].resume_consumption(channel)

    def channel_finished(self, channel: InputChannelInfo) -> None:
        """Nothing more will come from there."""
        self._blocked.pop(channel, None)
        self._announced.pop(channel, None)

    def add_seen_announcement(self, channel: InputChannelInfo, sequence_number: int) -> None:
        """A barrier stands in that place."""
        self._announced[channel] = sequence_number

    def remove_seen_announcement(self, channel: InputChannelInfo) -> None:
        """It has been read."""
        self._announced.pop(channel, None)

    def forget_announcements(self) -> None:
        """Of a checkpoint that is over."""
        self._announced.clear()

    def prioritize_all_announcements(self) -> None:
        """Every barrier that was announced and not read overtakes (C26)."""
        announced, self._announced = self._announced, {}
        for channel, sequence_number in announced.items():
            self.prioritize(channel, sequence_number)

    def prioritize(self, channel: InputChannelInfo, sequence_number: int) -> None:
        """The barrier in that place overtakes."""
        self._inputs[channel.gate_idx].convert_to_priority_event(channel, sequence_number)

    def start_capturing(self, barrier: CheckpointBarrier) -> None:
        """Every input captures what the barrier overtakes; one in which a newer one came first refuses."""
        for one in self._inputs.values():
            one.checkpoint_started(barrier)

    def stop_capturing(self, checkpoint_id: int) -> None:
        """All is captured, or nothing is needed."""
        for one in self._inputs.values():
            one.checkpoint_stopped(checkpoint_id)
