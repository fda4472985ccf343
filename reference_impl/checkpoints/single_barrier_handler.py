"""The barrier handler for exactly-once: aligns the barriers of one checkpoint at a time.

Answers to Flink's `SingleCheckpointBarrierHandler`. Invariant: a channel is blocked only while a checkpoint is pending
(FLINK-18238), and each checkpoint is triggered or aborted at most once, in rising order of ids (C20, C21, C24).

As in Flink, though it may surprise: a cancellation of the current checkpoint counts only if a barrier was read, not
merely announced (C24). A cancellation of a newer checkpoint drops the pending one silently; the task hears only of the
cancelled one.

Differences from Flink: the alignment timer gets one millisecond more, so that it fires when MORE than the timeout has
passed (C26); Flink's timers add that millisecond themselves (T1). An unaligned checkpoint reports to the task the
alignment time up to its snapshot; `alignment_duration_ms` has the whole time once all barriers have come (C31).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import NotRequired, TypedDict, Unpack

from reference_impl.checkpoint_events import (
    CancelCheckpointMarker,
    CheckpointBarrier,
    CheckpointException,
    CheckpointFailureReason,
    CheckpointMetaData,
)
from reference_impl.checkpoints.barrier_states import (
    AlternatingWaitingForFirstBarrier,
    BarrierHandlerState,
    ChannelState,
    CheckpointableInput,
    CheckpointableTask,
    InitInputCheckpoint,
    MeasuredAlignment,
    WaitingForFirstBarrier,
)
from reference_impl.checkpoints.channels import InputChannelInfo
from reference_impl.errors import WrongState
from reference_impl.mailbox.timers import Timer, Timers, cancel

Transition = Callable[[BarrierHandlerState], BarrierHandlerState]
"""A function from one state to the next."""


class HandlerParts(TypedDict):
    """Arguments of a handler of aligned barriers."""

    task: CheckpointableTask
    inputs: Sequence[CheckpointableInput]
    timers: Timers
    enable_checkpoints_after_tasks_finish: NotRequired[bool]


class AlternatingParts(HandlerParts):
    """The same if barriers may overtake."""

    checkpoints: InitInputCheckpoint


class SingleCheckpointBarrierHandler(MeasuredAlignment):
    """Aligns barriers over all inputs of a task. Mutable; created by `aligned` or `alternating`."""

    channel_state: type[ChannelState] = ChannelState
    """The class that records blocked channels; planted defects replace it."""

    def __init__(
        self,
        *,
        task: CheckpointableTask,
        inputs: Sequence[CheckpointableInput],
        timers: Timers,
        checkpoints: InitInputCheckpoint | None = None,
        enable_checkpoints_after_tasks_finish: bool = True,
        alternating: bool,
    ) -> None:
        super().__init__(timers.now_ms)
        self._task = task
        self._timers = timers
        self._checkpoints = checkpoints
        self._counts_ended_channels = enable_checkpoints_after_tasks_finish
        self._alternating = alternating
        self._channels = self.channel_state(inputs)
        self._open: dict[InputChannelInfo, None] = dict.fromkeys(
            info for one in inputs for info in one.channel_infos
        )
        """Channels that have not ended."""
        self._state: BarrierHandlerState = (
            AlternatingWaitingForFirstBarrier(self._channels)
            if alternating
            else WaitingForFirstBarrier(self._channels)
        )
        self._current_id = -1
        self._pending: CheckpointBarrier | None = None
        """The first barrier of the current checkpoint, until the checkpoint ends."""
        self._aligned: dict[InputChannelInfo, None] = {}
        self._target_channel_count = 0
        self._received: Future[None] = Future()
        self._timer: Timer | None = None

    @classmethod
    def aligned(cls, **parts: Unpack[HandlerParts]) -> SingleCheckpointBarrierHandler:
        """For a job whose checkpoints are always aligned; an unaligned barrier is an error."""
        return cls(**parts, alternating=False)

    @classmethod
    def alternating(cls, **parts: Unpack[AlternatingParts]) -> SingleCheckpointBarrierHandler:
        """For a job with unaligned checkpoints; `checkpoints` stores the in-flight data."""
        return cls(**parts, alternating=True)

    # ------------------------------------------------------------------------------------------ what channels bring

    def process_barrier(
        self, barrier: CheckpointBarrier, channel: InputChannelInfo, *, is_rpc_triggered: bool = False
    ) -> None:
        """Count the barrier; if it is obsolete, resume its channel (C20)."""
        if self._is_obsolete(barrier.checkpoint_id):
            if not barrier.options.is_unaligned and not is_rpc_triggered:
                self._channels.resume_channel(channel)
            return
        self._check_new_checkpoint(barrier)
        self._mark_aligned(
            channel,
            barrier,
            lambda state: state.barrier_received(
                self, channel, barrier, mark_channel_blocked=not is_rpc_triggered
            ),
        )

    def process_barrier_announcement(
        self, barrier: CheckpointBarrier, sequence_number: int, channel: InputChannelInfo
    ) -> None:
        """Begin the checkpoint and its timeout (C26)."""
        if self._is_obsolete(barrier.checkpoint_id):
            return
        self._check_new_checkpoint(barrier)
        self._transform(lambda state: state.announcement_received(self, channel, barrier, sequence_number))

    def process_cancellation_barrier(self, marker: CancelCheckpointMarker, channel: InputChannelInfo) -> None:
        """Abort the checkpoint unless it is over (C24)."""
        cancelled_id = marker.checkpoint_id
        if cancelled_id > self._current_id or (cancelled_id == self._current_id and self._aligned):
            reason = CheckpointFailureReason.CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER
            self._abort(cancelled_id, CheckpointException(reason))

    def process_end_of_partition(self, channel: InputChannelInfo) -> None:
        """Count the channel as if its barrier had come, or abort the checkpoint (C23)."""
        self._open.pop(channel, None)
        pending = self._pending
        if pending is None:
            return
        if not self._counts_ended_channels:
            reason = CheckpointFailureReason.CHECKPOINT_DECLINED_INPUT_END_OF_STREAM
            self._abort(self._current_id, CheckpointException(reason))
            return
        self._mark_aligned(
            channel, pending, lambda state: state.end_of_partition_received(self, channel, pending)
        )

    def close(self) -> None:
        self._cancel_timer()
        self._received.cancel()

    # ------------------------------------------------------------------------------------------------ what is known

    @property
    def latest_checkpoint_id(self) -> int:
        """The pending checkpoint, or else the last one; -1 before the first."""
        return self._current_id

    @property
    def is_checkpoint_pending(self) -> bool:
        return self._pending is not None

    def all_barriers_received_future(self, checkpoint_id: int) -> Future[None]:
        """Completes when the last barrier of that checkpoint has arrived; fails if the checkpoint was aborted.

        If all channels have ended, it has ended already: the task then takes snapshots by itself (C18).
        """
        if checkpoint_id == self._current_id and self._open:
            return self._received
        if checkpoint_id > self._current_id and self._open:
            raise WrongState(
                f"checkpoint {checkpoint_id} has not begun, the latest is {self._current_id}; ask after its barrier"
            )
        over: Future[None] = Future()
        over.set_result(None)
        return over

    # -------------------------------------------------------------------------- what a state may ask (its controller)

    @property
    def all_barriers_received(self) -> bool:
        """Whether no more barriers are expected (C22)."""
        return len(self._aligned) == self._target_channel_count

    def is_timed_out(self, barrier: CheckpointBarrier) -> bool:
        """Whether more than the barrier's alignment timeout has passed since its trigger (C26)."""
        timeout_ms = barrier.options.aligned_timeout_ms
        return (
            barrier.options.is_timeoutable
            and timeout_ms is not None
            and barrier.checkpoint_id <= self._current_id
            and timeout_ms < self._timers.now_ms() - barrier.timestamp
        )

    def init_input_checkpoint(self, barrier: CheckpointBarrier) -> None:
        """Tell the checkpoint coordinator that capturing may begin."""
        if self._checkpoints is not None:
            self._checkpoints.init_input_checkpoint(barrier.checkpoint_id, barrier.options)

    def trigger_global_checkpoint(self, barrier: CheckpointBarrier) -> None:
        metadata = CheckpointMetaData(checkpoint_id=barrier.checkpoint_id, timestamp=barrier.timestamp)
        self._task.trigger_checkpoint_on_barrier(metadata, barrier.options, self._clock.metrics)

    # ---------------------------------------------------------------------------------------------------- one by one

    def _is_obsolete(self, checkpoint_id: int) -> bool:
        return checkpoint_id < self._current_id or (
            checkpoint_id == self._current_id and not self.is_checkpoint_pending
        )

    def _check_new_checkpoint(self, barrier: CheckpointBarrier) -> None:
        """A higher id begins a new checkpoint and aborts the pending one (C21)."""
        if barrier.checkpoint_id <= self._current_id:
            return
        if self.is_checkpoint_pending:
            reason, detail = (
                CheckpointFailureReason.CHECKPOINT_DECLINED_SUBSUMED,
                f"by {barrier.checkpoint_id}",
            )
            self._abort(self._current_id, CheckpointException(reason, detail))
        self._current_id, self._pending = barrier.checkpoint_id, barrier
        self._aligned.clear()
        self._target_channel_count = len(self._open)
        self._received = Future()
        if self._alternating and barrier.options.is_timeoutable:
            elapsed_ms = self._timers.now_ms() - barrier.timestamp
            delay_ms = max((barrier.options.aligned_timeout_ms or 0) - elapsed_ms + 1, 0)
            self._timer = self._timers.register(delay_ms, lambda: self._time_out(barrier))

    def _mark_aligned(
        self, channel: InputChannelInfo, barrier: CheckpointBarrier, change: Transition
    ) -> None:
        """Count the channel and measure the alignment, before the state may take the snapshot."""
        self._aligned[channel] = None
        if len(self._aligned) == 1:
            self._clock.start(barrier)
        if self.all_barriers_received:
            self._clock.end()
        if self._transform(change) and self.all_barriers_received:
            self._complete()

    def _transform(self, change: Transition) -> bool:
        """Apply `change`; return whether the checkpoint is still running."""
        try:
            self._state = change(self._state)
        except CheckpointException as error:
            self._abort(self._current_id, error)
            return False
        return True

    def _complete(self) -> None:
        self._aligned.clear()
        self._pending = None
        self._cancel_timer()
        self._received.set_result(None)

    def _abort(self, cancelled_id: int, exception: CheckpointException) -> None:
        """End the checkpoint and resume all channels before the task is notified (C25)."""
        self._current_id = max(cancelled_id, self._current_id)
        self._pending = None
        self._aligned.clear()
        self._target_channel_count = 0
        self._cancel_timer()
        self._state = self._state.abort(cancelled_id)
        self._clock.reset()
        if self._received.done():
            self._received = Future()
        self._received.set_exception(exception)
        self._task.abort_checkpoint_on_barrier(cancelled_id, exception)

    # ------------------------------------------------------------------------------------------------- the timeout

    def _time_out(self, barrier: CheckpointBarrier) -> None:
        """Run as the timer's mail, possibly after the timer was cancelled (T3)."""
        if self._pending is None or self._current_id != barrier.checkpoint_id:
            return
        self._timer = None
        self._transform(lambda state: state.aligned_checkpoint_timeout(self, barrier))

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            cancel(self._timer)
            self._timer = None
