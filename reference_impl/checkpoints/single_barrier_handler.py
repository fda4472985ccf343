"""Brings the barriers of one checkpoint at a time together, exactly once.

Answers to Flink's `SingleCheckpointBarrierHandler`. Invariant: a channel is blocked only while a checkpoint is pending
(FLINK-18238), and each number is begun or given up at most once, in rising order (C20, C21, C24).

Two things are as in Flink, and as the statements say, although they may surprise. A cancellation of the current number
counts only if a barrier, and not merely an announcement, has come (C24). One of a higher number gives up the pending
checkpoint without a word about it: the task hears of the cancelled number alone.

Deviations. The alignment's timer has one millisecond more than is left, so that it, too, fires when MORE than the
timeout has passed (C26; Flink's timers add that millisecond themselves, T1). What an unaligned checkpoint tells the
task of its alignment is what is known when it cuts; the whole is `alignment_duration_ms`, once all barriers are there
(C31).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future

from reference_impl.checkpoint_events import (
    CancelCheckpointMarker,
    CheckpointBarrier,
    CheckpointException,
    CheckpointFailureReason,
    CheckpointMetaData,
)
from reference_impl.checkpoints.barrier_handler import (
    ChannelState,
    CheckpointableInput,
    CheckpointableTask,
    InitInputCheckpoint,
    MeasuredAlignment,
)
from reference_impl.checkpoints.barrier_states import (
    AlternatingWaitingForFirstBarrier,
    BarrierHandlerState,
    WaitingForFirstBarrier,
)
from reference_impl.checkpoints.channels import InputChannelInfo
from reference_impl.errors import WrongState
from reference_impl.mailbox.timers import Timer, Timers, cancel

__all__ = ["SingleCheckpointBarrierHandler", "Transition"]

Transition = Callable[[BarrierHandlerState], BarrierHandlerState]
"""From one state to the next."""


class SingleCheckpointBarrierHandler(MeasuredAlignment):
    """Of all inputs of a task. Mutable; on the task's thread. Made by `aligned` or `alternating`."""

    channel_state: type[ChannelState] = ChannelState
    """What knows the blocked channels; a planted defect's may be another."""

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
        """Those that have not ended."""
        self._state: BarrierHandlerState = (
            AlternatingWaitingForFirstBarrier(self._channels)
            if alternating
            else WaitingForFirstBarrier(self._channels)
        )
        self._current_id = -1
        self._pending: CheckpointBarrier | None = None
        """The first barrier of the current number, until it is given up or all of its barriers are there."""
        self._aligned: dict[InputChannelInfo, None] = {}
        self._target_channel_count = 0
        self._received: Future[None] = Future()
        self._timer: Timer | None = None

    @classmethod
    def aligned(
        cls,
        *,
        task: CheckpointableTask,
        inputs: Sequence[CheckpointableInput],
        timers: Timers,
        enable_checkpoints_after_tasks_finish: bool = True,
    ) -> SingleCheckpointBarrierHandler:
        """For a job whose checkpoints are always aligned; an unaligned barrier is an error."""
        return cls(
            task=task,
            inputs=inputs,
            timers=timers,
            enable_checkpoints_after_tasks_finish=enable_checkpoints_after_tasks_finish,
            alternating=False,
        )

    @classmethod
    def alternating(
        cls,
        *,
        task: CheckpointableTask,
        inputs: Sequence[CheckpointableInput],
        timers: Timers,
        checkpoints: InitInputCheckpoint,
        enable_checkpoints_after_tasks_finish: bool = True,
    ) -> SingleCheckpointBarrierHandler:
        """For a job whose checkpoints may be, or become, unaligned; what is in flight is `checkpoints`' business."""
        return cls(
            task=task,
            inputs=inputs,
            timers=timers,
            checkpoints=checkpoints,
            enable_checkpoints_after_tasks_finish=enable_checkpoints_after_tasks_finish,
            alternating=True,
        )

    # ------------------------------------------------------------------------------------------ what channels bring

    def process_barrier(
        self, barrier: CheckpointBarrier, channel: InputChannelInfo, *, is_rpc_triggered: bool = False
    ) -> None:
        """Count it; one that nobody waits for leaves its channel as it was before (C20)."""
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
        """Its checkpoint begins, and so does its timeout (C26)."""
        if self._is_obsolete(barrier.checkpoint_id):
            return
        self._check_new_checkpoint(barrier)
        self._transform(lambda state: state.announcement_received(self, channel, barrier, sequence_number))

    def process_cancellation_barrier(self, marker: CancelCheckpointMarker, channel: InputChannelInfo) -> None:
        """Give it up, unless it is over (C24)."""
        cancelled_id = marker.checkpoint_id
        if cancelled_id > self._current_id or (cancelled_id == self._current_id and self._aligned):
            reason = CheckpointFailureReason.CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER
            self._abort(cancelled_id, CheckpointException(reason))

    def process_end_of_partition(self, channel: InputChannelInfo) -> None:
        """Its barrier will not come: it counts as come, or the checkpoint is given up (C23)."""
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
        """Wait for nothing any more."""
        self._cancel_timer()
        self._received.cancel()

    # ------------------------------------------------------------------------------------------------ what is known

    @property
    def latest_checkpoint_id(self) -> int:
        """The checkpoint that is pending, or was last; -1 before the first."""
        return self._current_id

    @property
    def is_checkpoint_pending(self) -> bool:
        """Whether barriers are waited for."""
        return self._pending is not None

    @property
    def num_open_channels(self) -> int:
        """Channels that have not ended."""
        return len(self._open)

    def all_barriers_received_future(self, checkpoint_id: int) -> Future[None]:
        """Ends when the last barrier of that checkpoint is there; fails if it was given up.

        With every channel ended there is none to wait for, whatever the number: the task cuts by itself then (C18).
        """
        if checkpoint_id == self._current_id and self._open:
            return self._received
        if checkpoint_id > self._current_id and self._open:
            raise WrongState(
                f"checkpoint {checkpoint_id} has not begun, the latest is {self._current_id}; ask when a barrier came"
            )
        over: Future[None] = Future()
        over.set_result(None)
        return over

    # -------------------------------------------------------------------------- what a state may ask (its controller)

    @property
    def all_barriers_received(self) -> bool:
        """Whether no channel's barrier is waited for (C22)."""
        return len(self._aligned) == self._target_channel_count

    def is_timed_out(self, barrier: CheckpointBarrier) -> bool:
        """Whether more than its timeout has passed since it was triggered (C26)."""
        timeout_ms = barrier.options.aligned_timeout_ms
        return (
            barrier.options.is_timeoutable
            and timeout_ms is not None
            and barrier.checkpoint_id <= self._current_id
            and timeout_ms < self._timers.now_ms() - barrier.timestamp
        )

    def init_input_checkpoint(self, barrier: CheckpointBarrier) -> None:
        """Tell the task's checkpoints that capturing may begin."""
        if self._checkpoints is not None:
            self._checkpoints.init_input_checkpoint(barrier.checkpoint_id, barrier.options)

    def trigger_global_checkpoint(self, barrier: CheckpointBarrier) -> None:
        """Have the task take its snapshot."""
        metadata = CheckpointMetaData(checkpoint_id=barrier.checkpoint_id, timestamp=barrier.timestamp)
        self._task.trigger_checkpoint_on_barrier(metadata, barrier.options, self._clock.metrics)

    # ---------------------------------------------------------------------------------------------------- one by one

    def _is_obsolete(self, checkpoint_id: int) -> bool:
        return checkpoint_id < self._current_id or (
            checkpoint_id == self._current_id and not self.is_checkpoint_pending
        )

    def _check_new_checkpoint(self, barrier: CheckpointBarrier) -> None:
        """A number above the current one begins, and ends what is pending (C21)."""
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
            self._register_timer(barrier, barrier.options.aligned_timeout_ms or 0)

    def _mark_aligned(
        self, channel: InputChannelInfo, barrier: CheckpointBarrier, change: Transition
    ) -> None:
        """A channel has its barrier, or needs none; told before the snapshot, which measures the alignment."""
        self._aligned[channel] = None
        if len(self._aligned) == 1:
            self._clock.start(barrier)
        if self.all_barriers_received:
            self._clock.end()
        if self._transform(change) and self.all_barriers_received:
            self._complete()

    def _transform(self, change: Transition) -> bool:
        """Whether the checkpoint has survived it."""
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
        """The number counts as used, everything goes on, and only then the task is told (C25)."""
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

    def _register_timer(self, barrier: CheckpointBarrier, timeout_ms: int) -> None:
        elapsed_ms = self._timers.now_ms() - barrier.timestamp
        delay_ms = max(timeout_ms - elapsed_ms + 1, 0)
        self._timer = self._timers.register(delay_ms, lambda: self._time_out(barrier))

    def _time_out(self, barrier: CheckpointBarrier) -> None:
        """The timer's mail, which may come although the timer was cancelled (T3)."""
        if self._pending is None or self._current_id != barrier.checkpoint_id:
            return
        self._timer = None
        self._transform(lambda state: state.aligned_checkpoint_timeout(self, barrier))

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            cancel(self._timer)
            self._timer = None
