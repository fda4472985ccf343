"""The interface between a barrier handler, its task and its input gates, and what every handler keeps and measures.

Answers to Flink's `CheckpointBarrierHandler` with its metrics, `CheckpointableTask`, `CheckpointableInput` and
`ChannelState`. Invariant: a handler begins each checkpoint at most once and gives it up at most once, and tells the
task nothing of one that is not above the last.
"""

from __future__ import annotations

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

__all__ = [
    "AlignmentClock",
    "ChannelState",
    "CheckpointBarrierHandler",
    "CheckpointableInput",
    "CheckpointableTask",
    "InitInputCheckpoint",
    "MeasuredAlignment",
]


class ChannelState:
    """Which channels a checkpoint has blocked, and in which a barrier was announced.

    The channels of all inputs. Mutable.

    Answers to Flink's `ChannelState`. Invariant: a channel that is blocked is known here, so all are resumed in one go;
    an announcement is forgotten when its barrier is read, is made a priority event, or is waited for no more.
    """

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


class AlignmentClock:
    """How long barriers take to come together.

    Of one barrier handler. Mutable.

    Answers to the metrics in Flink's `CheckpointBarrierHandler`. Invariant: each checkpoint that is begun sets both
    figures anew, neither is ever negative, and with one channel the duration is 0 (C31).
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._started_ms: int | None = None
        """None outside of an alignment."""
        self._duration_ms = 0
        self._start_delay_ms = 0

    def start(self, barrier: CheckpointBarrier) -> None:
        """Its first barrier is there: announced or not, for it is barriers that hold up (FLINK-24068)."""
        now_ms = self._now_ms()
        self._started_ms = now_ms
        self._start_delay_ms = max(now_ms - barrier.timestamp, 0)

    def end(self) -> None:
        """The last one is there."""
        if self._started_ms is not None:
            self._duration_ms = self._now_ms() - self._started_ms
            self._started_ms = None

    def reset(self) -> None:
        """It was given up, and has no duration."""
        self._started_ms = None
        self._duration_ms = 0

    @property
    def alignment_duration_ms(self) -> int:
        """Of the last alignment, or of this one until now."""
        return self._duration_ms if self._started_ms is None else self._now_ms() - self._started_ms

    @property
    def checkpoint_start_delay_ms(self) -> int:
        """Between the triggering and the first barrier."""
        return self._start_delay_ms

    @property
    def metrics(self) -> CheckpointMetrics:
        """As they are now."""
        return CheckpointMetrics(
            alignment_duration_ms=self.alignment_duration_ms,
            checkpoint_start_delay_ms=self._start_delay_ms,
        )


class MeasuredAlignment:
    """What a barrier handler tells of its alignments (C31). Mutable: its clock."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._clock = AlignmentClock(now_ms)

    @property
    def alignment_duration_ms(self) -> int:
        """How long the last alignment took, or has taken until now; of several at a time, the newest."""
        return self._clock.alignment_duration_ms

    @property
    def checkpoint_start_delay_ms(self) -> int:
        """How long the last checkpoint's first barrier was on its way."""
        return self._clock.checkpoint_start_delay_ms


class CheckpointableTask(Protocol):
    """The task, as a barrier handler sees it."""

    def trigger_checkpoint_on_barrier(
        self, metadata: CheckpointMetaData, options: CheckpointOptions, metrics: CheckpointMetrics, /
    ) -> None:
        """Take the snapshot now; what this raises fails the task."""

    def abort_checkpoint_on_barrier(self, checkpoint_id: int, exception: CheckpointException, /) -> None:
        """It will not be taken: decline it, tell operators and those behind (C25)."""


class CheckpointableInput(Protocol):
    """A gate, as a barrier handler sees it (the `InputGate`)."""

    @property
    def channel_infos(self) -> Sequence[InputChannelInfo]:
        """Its channels."""

    def block_consumption(self, info: InputChannelInfo, /) -> None: ...

    def resume_consumption(self, info: InputChannelInfo, /) -> None: ...

    def convert_to_priority_event(self, info: InputChannelInfo, sequence_number: int, /) -> None: ...

    def checkpoint_started(self, barrier: CheckpointBarrier, /) -> None: ...

    def checkpoint_stopped(self, checkpoint_id: int, /) -> None: ...


class InitInputCheckpoint(Protocol):
    """The task's checkpoints, told before its inputs begin to capture (`SubtaskCheckpointCoordinator`)."""

    def init_input_checkpoint(self, checkpoint_id: int, options: CheckpointOptions, /) -> None:
        """Be ready for what is in flight, if the options ask for it."""


class CheckpointBarrierHandler(Protocol):
    """Told of all that the channels bring beside elements, in the order in which it was read."""

    def process_barrier(
        self, barrier: CheckpointBarrier, channel: InputChannelInfo, *, is_rpc_triggered: bool = False
    ) -> None:
        """A barrier was read; or, if so said, stands for one: the channel did not carry it and is not blocked."""

    def process_barrier_announcement(
        self, barrier: CheckpointBarrier, sequence_number: int, channel: InputChannelInfo
    ) -> None:
        """A barrier has entered the channel, in that place."""

    def process_cancellation_barrier(self, marker: CancelCheckpointMarker, channel: InputChannelInfo) -> None:
        """No barrier of that checkpoint will come from there (C24)."""

    def process_end_of_partition(self, channel: InputChannelInfo) -> None:
        """Nothing will come from there (C23)."""

    def all_barriers_received_future(self, checkpoint_id: int) -> Future[None]:
        """Ends when the last barrier of that checkpoint is there; fails if it was given up."""

    @property
    def latest_checkpoint_id(self) -> int:
        """The checkpoint that is pending, or was last; -1 before the first."""

    @property
    def is_checkpoint_pending(self) -> bool:
        """Whether barriers are waited for."""

    @property
    def alignment_duration_ms(self) -> int:
        """How long the last alignment took, or has taken until now (C31)."""

    @property
    def checkpoint_start_delay_ms(self) -> int:
        """How long the last checkpoint's first barrier was on its way (C31)."""

    def close(self) -> None:
        """Wait for nothing any more."""
