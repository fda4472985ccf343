"""The interfaces of a barrier handler, and its states: how it reacts to the next barrier.

Answers to Flink's `CheckpointBarrierHandler` with its metrics, `CheckpointableTask`, `CheckpointableInput` and
`ChannelState`. Invariant: a handler begins each checkpoint at most once and aborts it at most once, and ignores one
that is not newer than the last.

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
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Protocol

from reference_impl.checkpoint_events import (
    CancelCheckpointMarker,
    CheckpointBarrier,
    CheckpointException,
    CheckpointMetaData,
    CheckpointMetrics,
    CheckpointOptions,
)
from reference_impl.checkpoints.channels import InputChannelInfo
from reference_impl.errors import WrongState


class ChannelState:
    """Which channels a checkpoint has blocked, and in which a barrier was announced. Mutable.

    Answers to Flink's `ChannelState`. Invariant: every blocked channel is recorded here, so all can be resumed
    together; an announcement is forgotten when its barrier is read, becomes a priority event, or no longer matters.
    """

    def __init__(self, inputs: Sequence[CheckpointableInput]) -> None:
        self._inputs = {one.channel_infos[0].gate_idx: one for one in inputs if one.channel_infos}
        self._blocked: dict[InputChannelInfo, None] = {}
        self._announced: dict[InputChannelInfo, int] = {}

    def block_channel(self, channel: InputChannelInfo) -> None:
        """Block a channel that has delivered its barrier (C22)."""
        self._inputs[channel.gate_idx].block_consumption(channel)
        self._blocked[channel] = None

    def resume_channel(self, channel: InputChannelInfo) -> None:
        """Resume one channel (C20)."""
        self._blocked.pop(channel, None)
        self._inputs[channel.gate_idx].resume_consumption(channel)

    def unblock_all_channels(self) -> None:
        blocked, self._blocked = self._blocked, {}
        for channel in blocked:
            self._inputs[channel.gate_idx].resume_consumption(channel)

    def channel_finished(self, channel: InputChannelInfo) -> None:
        """Forget a channel that has ended."""
        self._blocked.pop(channel, None)
        self._announced.pop(channel, None)

    def add_seen_announcement(self, channel: InputChannelInfo, sequence_number: int) -> None:
        """Record that a barrier waits in `channel`, with this sequence number."""
        self._announced[channel] = sequence_number

    def remove_seen_announcement(self, channel: InputChannelInfo) -> None:
        self._announced.pop(channel, None)

    def forget_announcements(self) -> None:
        self._announced.clear()

    def prioritize_all_announcements(self) -> None:
        """Let every barrier that was announced and not read overtake (C26)."""
        announced, self._announced = self._announced, {}
        for channel, sequence_number in announced.items():
            self.prioritize(channel, sequence_number)

    def prioritize(self, channel: InputChannelInfo, sequence_number: int) -> None:
        """Let the barrier with this sequence number overtake."""
        self._inputs[channel.gate_idx].convert_to_priority_event(channel, sequence_number)

    def start_capturing(self, barrier: CheckpointBarrier) -> None:
        """Start capturing in every input; raises if a newer barrier has arrived in one of them."""
        for one in self._inputs.values():
            one.checkpoint_started(barrier)

    def stop_capturing(self, checkpoint_id: int) -> None:
        for one in self._inputs.values():
            one.checkpoint_stopped(checkpoint_id)


class AlignmentClock:
    """Measures how long the barriers of a checkpoint take to arrive. Mutable.

    Answers to the metrics in Flink's `CheckpointBarrierHandler`. Invariant: each checkpoint resets both figures;
    neither is negative; with one channel the duration is 0 (C31).
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._started_ms: int | None = None
        """None when no alignment is running."""
        self._duration_ms = 0
        self._start_delay_ms = 0

    def start(self, barrier: CheckpointBarrier) -> None:
        """The first barrier was read; its announcement does not count (FLINK-24068)."""
        now_ms = self._now_ms()
        self._started_ms = now_ms
        self._start_delay_ms = max(now_ms - barrier.timestamp, 0)

    def end(self) -> None:
        """Note that the last barrier has arrived."""
        if self._started_ms is not None:
            self._duration_ms = self._now_ms() - self._started_ms
            self._started_ms = None

    def reset(self) -> None:
        """The checkpoint was aborted."""
        self._started_ms = None
        self._duration_ms = 0

    @property
    def alignment_duration_ms(self) -> int:
        """Duration of the last alignment, or of the running one so far."""
        return self._duration_ms if self._started_ms is None else self._now_ms() - self._started_ms

    @property
    def checkpoint_start_delay_ms(self) -> int:
        """Time between the trigger and the first barrier."""
        return self._start_delay_ms

    @property
    def metrics(self) -> CheckpointMetrics:
        return CheckpointMetrics(
            alignment_duration_ms=self.alignment_duration_ms,
            checkpoint_start_delay_ms=self._start_delay_ms,
        )


class MeasuredAlignment:
    """The alignment metrics of a barrier handler (C31). Mutable."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._clock = AlignmentClock(now_ms)

    @property
    def alignment_duration_ms(self) -> int:
        """Duration of the last alignment, or of the running one so far; of several, the newest."""
        return self._clock.alignment_duration_ms

    @property
    def checkpoint_start_delay_ms(self) -> int:
        """How long the first barrier of the last checkpoint took to arrive."""
        return self._clock.checkpoint_start_delay_ms


class CheckpointableTask(Protocol):
    """The task, as a barrier handler uses it."""

    def trigger_checkpoint_on_barrier(
        self, metadata: CheckpointMetaData, options: CheckpointOptions, metrics: CheckpointMetrics, /
    ) -> None:
        """Take the snapshot now; an exception fails the task."""

    def abort_checkpoint_on_barrier(self, checkpoint_id: int, exception: CheckpointException, /) -> None:
        """Decline the checkpoint, and tell the operators and the tasks downstream (C25)."""


class CheckpointableInput(Protocol):
    """An `InputGate`, as a barrier handler uses it."""

    @property
    def channel_infos(self) -> Sequence[InputChannelInfo]: ...

    def block_consumption(self, info: InputChannelInfo, /) -> None: ...

    def resume_consumption(self, info: InputChannelInfo, /) -> None: ...

    def convert_to_priority_event(self, info: InputChannelInfo, sequence_number: int, /) -> None: ...

    def checkpoint_started(self, barrier: CheckpointBarrier, /) -> None: ...

    def checkpoint_stopped(self, checkpoint_id: int, /) -> None: ...


class InitInputCheckpoint(Protocol):
    """Implemented by `SubtaskCheckpointCoordinator`; called before the inputs begin to capture."""

    def init_input_checkpoint(self, checkpoint_id: int, options: CheckpointOptions, /) -> None:
        """Prepare to store in-flight data, if the options ask for it."""


class CheckpointBarrierHandler(Protocol):
    """Receives the events of all channels in the order in which they are read."""

    def process_barrier(
        self, barrier: CheckpointBarrier, channel: InputChannelInfo, *, is_rpc_triggered: bool = False
    ) -> None:
        """A barrier was read. With `is_rpc_triggered` the channel did not carry it and is not blocked."""

    def process_barrier_announcement(
        self, barrier: CheckpointBarrier, sequence_number: int, channel: InputChannelInfo
    ) -> None:
        """A barrier has arrived in the channel, with this sequence number."""

    def process_cancellation_barrier(self, marker: CancelCheckpointMarker, channel: InputChannelInfo) -> None:
        """No barrier of that checkpoint will come from this channel (C24)."""

    def process_end_of_partition(self, channel: InputChannelInfo) -> None:
        """The channel has ended (C23)."""

    def all_barriers_received_future(self, checkpoint_id: int) -> Future[None]:
        """Completes when the last barrier of that checkpoint has arrived; fails if the checkpoint was aborted."""

    @property
    def latest_checkpoint_id(self) -> int:
        """The pending checkpoint, or else the last one; -1 before the first."""

    @property
    def is_checkpoint_pending(self) -> bool:
        """Whether more barriers are expected."""

    @property
    def alignment_duration_ms(self) -> int:
        """Duration of the last alignment, or of the running one so far (C31)."""

    @property
    def checkpoint_start_delay_ms(self) -> int:
        """How long the first barrier of the last checkpoint took to arrive (C31)."""

    def close(self) -> None:
        """Stop waiting for barriers."""


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
        if barrier.options.is_unaligned:
            raise WrongState(
                f"barrier {barrier.checkpoint_id} in {channel} is unaligned, but this handler only aligns; "
                "use SingleCheckpointBarrierHandler.alternating"
            )
        if mark_channel_blocked:
            self._channels.block_channel(channel)
        collecting = CollectingBarriers(self._channels)
        if not controller.all_barriers_received:
            return collecting
        controller.trigger_global_checkpoint(barrier)
        return collecting.abort(barrier.checkpoint_id)

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


class _AlternatingState(BarrierHandlerState):
    """A state of a handler whose barriers may overtake."""

    def abort(self, checkpoint_id: int) -> BarrierHandlerState:
        """Resume all channels and stop capturing, which a refused snapshot may have started (FLINK-20331)."""
        self._channels.stop_capturing(checkpoint_id)
        return self._begin_anew()

    def _take_aligned(
        self, controller: BarrierHandlerController, barrier: CheckpointBarrier
    ) -> BarrierHandlerState:
        """All barriers came in time: no data are in flight before them."""
        controller.init_input_checkpoint(barrier)
        controller.trigger_global_checkpoint(barrier)
        return self._begin_anew()

    def _cut(self, controller: BarrierHandlerController, barrier: CheckpointBarrier) -> BarrierHandlerState:
        """Take the snapshot now, and capture what the missing barriers will overtake (C26, C27)."""
        self._channels.prioritize_all_announcements()
        unaligned = barrier.as_unaligned()
        controller.init_input_checkpoint(unaligned)
        self._channels.start_capturing(unaligned)
        controller.trigger_global_checkpoint(unaligned)
        self._channels.unblock_all_channels()
        if controller.all_barriers_received:
            return self.abort(barrier.checkpoint_id)
        return AlternatingCollectingBarriersUnaligned(self._channels)

    def _begin_anew(self) -> BarrierHandlerState:
        self._channels.unblock_all_channels()
        self._channels.forget_announcements()
        return AlternatingWaitingForFirstBarrier(self._channels)


class AlternatingWaitingForFirstBarrier(_AlternatingState):
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
            return self._cut(controller, barrier)
        if mark_channel_blocked:
            self._channels.block_channel(channel)
        if controller.all_barriers_received:
            return self._take_aligned(controller, barrier)
        if controller.is_timed_out(barrier):
            return self._cut(controller, barrier)
        return AlternatingCollectingBarriers(self._channels)

    def aligned_checkpoint_timeout(
        self, controller: BarrierHandlerController, barrier: CheckpointBarrier
    ) -> BarrierHandlerState:
        """Announced barriers overtake; the first that is read takes the snapshot."""
        self._channels.prioritize_all_announcements()
        return AlternatingWaitingForFirstBarrierUnaligned(self._channels)


class AlternatingCollectingBarriers(AlternatingWaitingForFirstBarrier):
    """The state from the first barrier on; channels whose barrier has arrived are blocked."""

    def end_of_partition_received(
        self, controller: BarrierHandlerController, channel: InputChannelInfo, barrier: CheckpointBarrier
    ) -> BarrierHandlerState:
        """The channel may have been the last one that was missing (C23); if not, a passed timeout acts here too."""
        self._channels.channel_finished(channel)
        if controller.all_barriers_received:
            return self._take_aligned(controller, barrier)
        if controller.is_timed_out(barrier):
            return self.aligned_checkpoint_timeout(controller, barrier)
        return self

    def aligned_checkpoint_timeout(
        self, controller: BarrierHandlerController, barrier: CheckpointBarrier
    ) -> BarrierHandlerState:
        """Take the snapshot now."""
        return self._cut(controller, barrier)


class AlternatingWaitingForFirstBarrierUnaligned(_AlternatingState):
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
        return self._cut(controller, barrier)


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
        return self.abort(barrier.checkpoint_id) if controller.all_barriers_received else self

    def end_of_partition_received(
        self, controller: BarrierHandlerController, channel: InputChannelInfo, barrier: CheckpointBarrier
    ) -> BarrierHandlerState:
        """What the channel held was captured already."""
        self._channels.channel_finished(channel)
        return self.abort(barrier.checkpoint_id) if controller.all_barriers_received else self
