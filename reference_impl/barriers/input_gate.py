"""Several channels read as one input.

Answers to Flink's `SingleInputGate` and `CheckpointableInput`. Invariant: priority events come first, of the lowest
channel first; otherwise `choose` decides which of the channels that have something is read, by default in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reference_impl.barriers.input_channel import ChannelElement, InputChannel
from reference_impl.barriers.input_channel_info import InputChannelInfo
from reference_impl.events import CheckpointBarrier, EndOfData, StopMode
from reference_impl.queues.availability import AVAILABLE, Availability

__all__ = ["ChooseChannel", "InTurn", "InputGate"]

ChooseChannel = Callable[[Sequence[InputChannel]], InputChannel]
"""Which of these is next; all of them have something to read."""


class InTurn:
    """Each channel after the one before it. Mutable: knows who was last."""

    def __init__(self) -> None:
        self._last = -1

    def __call__(self, channels: Sequence[InputChannel]) -> InputChannel:
        """The first one behind the last, going round."""
        chosen = next((c for c in channels if c.info.input_channel_idx > self._last), channels[0])
        self._last = chosen.info.input_channel_idx
        return chosen


class InputGate:
    """The channels of one input. Mutable; on the task's thread. All channels have the gate's index."""

    def __init__(self, channels: Sequence[InputChannel], *, choose: ChooseChannel | None = None) -> None:
        for index, channel in enumerate(channels):
            if channel.info != InputChannelInfo(channels[0].info.gate_idx, index):
                raise ValueError(
                    f"{channel.info} stands in place {index}; give the channels of one gate, in their order"
                )
            channel.on_change = self._tell
        self.channels = tuple(channels)
        self._choose = choose or InTurn()
        self._available = AVAILABLE
        self._priority_available = AVAILABLE
        self._unended = dict.fromkeys(channel.info for channel in channels)
        """Those of which no end of data was read."""
        self._stop_mode = StopMode.DRAIN

    # ------------------------------------------------------------------------------------------------- what it has

    def poll_next(self) -> tuple[InputChannelInfo, ChannelElement] | None:
        """The next element and where it came from, or none."""
        channel = self._next_channel()
        element = None if channel is None else channel.poll()
        if channel is None or element is None:
            return None
        if isinstance(element, EndOfData):
            self._unended.pop(channel.info, None)
            if element.mode is StopMode.NO_DRAIN:
                self._stop_mode = StopMode.NO_DRAIN
        return channel.info, element

    def _next_channel(self) -> InputChannel | None:
        if len(self.channels) == 1:
            return self.channels[0]  # nothing to choose: the fast path
        for channel in self.channels:
            if channel.has_priority_event:
                return channel
        readable = [channel for channel in self.channels if channel.is_readable]
        return self._choose(readable) if readable else None

    @property
    def is_available(self) -> Availability:
        """Ended while there is something to read, or all has been read; else it ends when something comes."""
        if self.is_finished or any(channel.is_readable for channel in self.channels):
            return AVAILABLE
        if self._available:
            self._available = Availability()
        return self._available

    @property
    def is_priority_event_available(self) -> Availability:
        """The same for priority events."""
        if any(channel.has_priority_event for channel in self.channels):
            return AVAILABLE
        if self._priority_available:
            self._priority_available = Availability()
        return self._priority_available

    @property
    def is_finished(self) -> bool:
        """Whether the end of every channel has been read."""
        return all(channel.is_finished for channel in self.channels)

    @property
    def end_of_data(self) -> StopMode | None:
        """How the data have ended, once they have in every channel: with a drain only if all say so."""
        return None if self._unended else self._stop_mode

    def _tell(self) -> None:
        if not self._priority_available and any(channel.has_priority_event for channel in self.channels):
            self._priority_available.end()
        if not self._available and any(channel.is_readable for channel in self.channels):
            self._available.end()

    # ---------------------------------------------------------------------------------- what a barrier handler does

    @property
    def channel_infos(self) -> tuple[InputChannelInfo, ...]:
        """All of them, in order."""
        return tuple(channel.info for channel in self.channels)

    def block_consumption(self, info: InputChannelInfo) -> None:
        """Read nothing of that channel."""
        self.channels[info.input_channel_idx].block()

    def resume_consumption(self, info: InputChannelInfo) -> None:
        """Read on."""
        self.channels[info.input_channel_idx].resume()

    def convert_to_priority_event(self, info: InputChannelInfo, sequence_number: int) -> None:
        """The barrier in that place overtakes."""
        self.channels[info.input_channel_idx].convert_to_priority_event(sequence_number)

    def checkpoint_started(self, barrier: CheckpointBarrier) -> None:
        """Every channel captures what its barrier overtakes."""
        for channel in self.channels:
            channel.checkpoint_started(barrier)

    def checkpoint_stopped(self, checkpoint_id: int) -> None:
        """No channel captures for it any more."""
        for channel in self.channels:
            channel.checkpoint_stopped(checkpoint_id)
