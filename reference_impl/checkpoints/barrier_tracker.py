"""The barrier handler for at-least-once: counts the barriers of several checkpoints at a time, and blocks nothing.

Answers to Flink's `CheckpointBarrierTracker`. Invariant: no channel is ever blocked; pending checkpoints are kept in
rising order of ids, at most 50 of them, and each is triggered or aborted at most once (C30).
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field

from reference_impl.checkpoint_events import (
    CancelCheckpointMarker,
    CheckpointBarrier,
    CheckpointException,
    CheckpointFailureReason,
    CheckpointMetaData,
)
from reference_impl.checkpoints.barrier_handler import CheckpointableTask, MeasuredAlignment
from reference_impl.checkpoints.channels import InputChannelInfo
from reference_impl.errors import WrongState
from reference_impl.mailbox.timers import Timers

__all__ = ["MAX_CHECKPOINTS_TO_TRACK", "CheckpointBarrierTracker"]

MAX_CHECKPOINTS_TO_TRACK = 50
"""With more, the oldest is dropped without notice."""


@dataclass(slots=True, kw_only=True)
class _Count:
    """A pending checkpoint. Mutable."""

    checkpoint_id: int
    target_channel_count: int
    barrier: CheckpointBarrier | None
    """None if it was cancelled before any barrier came."""
    aligned: dict[InputChannelInfo, None] = field(default_factory=dict)
    aborted: bool = False

    def mark_aligned(self, channel: InputChannelInfo) -> bool:
        """Count the channel; return whether it was the last."""
        self.aligned[channel] = None
        return len(self.aligned) == self.target_channel_count

    def mark_aborted(self) -> bool:
        """Return whether the checkpoint was not aborted before."""
        was_aborted, self.aborted = self.aborted, True
        return not was_aborted


class CheckpointBarrierTracker(MeasuredAlignment):
    """Counts barriers over all inputs of a task. Mutable; used on the task's thread."""

    def __init__(
        self,
        number_of_channels: int,
        *,
        task: CheckpointableTask,
        timers: Timers,
        enable_checkpoints_after_tasks_finish: bool = True,
    ) -> None:
        super().__init__(timers.now_ms)
        self._num_open_channels = number_of_channels
        self._task = task
        self._counts_ended_channels = enable_checkpoints_after_tasks_finish
        self._pending: deque[_Count] = deque()
        """In rising order of ids."""
        self._latest_id = -1
        """The highest checkpoint that was begun or cancelled."""

    def process_barrier(
        self, barrier: CheckpointBarrier, channel: InputChannelInfo, *, is_rpc_triggered: bool = False
    ) -> None:
        """Count the barrier; the last one triggers its checkpoint and drops older ones."""
        if barrier.checkpoint_id > self._latest_id:
            self._begin(barrier, channel)
            return
        for count in self._pending:
            if count.checkpoint_id == barrier.checkpoint_id:
                if count.mark_aligned(channel):
                    self._complete(count)
                return

    def _begin(self, barrier: CheckpointBarrier, channel: InputChannelInfo) -> None:
        self._latest_id = barrier.checkpoint_id
        self._clock.start(barrier)
        count = _Count(
            checkpoint_id=barrier.checkpoint_id,
            target_channel_count=self._num_open_channels,
            barrier=barrier,
        )
        self._pending.append(count)
        if count.mark_aligned(channel):
            self._complete(count)
        elif len(self._pending) > MAX_CHECKPOINTS_TO_TRACK:
            self._pending.popleft()

    def process_barrier_announcement(
        self, barrier: CheckpointBarrier, sequence_number: int, channel: InputChannelInfo
    ) -> None:
        """Ignored: no barrier overtakes here."""

    def process_cancellation_barrier(self, marker: CancelCheckpointMarker, channel: InputChannelInfo) -> None:
        """Abort this checkpoint and older ones, each once; further barriers of this one are still counted."""
        cancelled_id = marker.checkpoint_id
        while self._pending and self._pending[0].checkpoint_id < cancelled_id:
            self._abort_on_cancellation(self._pending.popleft())
        if self._pending and self._pending[0].checkpoint_id == cancelled_id:
            count = self._pending[0]
            self._abort_on_cancellation(count)
            if count.mark_aligned(channel):
                self._pending.popleft()
        elif cancelled_id > self._latest_id:
            self._cancel_early(cancelled_id, channel)

    def _cancel_early(self, cancelled_id: int, channel: InputChannelInfo) -> None:
        """No barrier has come yet; barriers that still come are only counted."""
        self._latest_id = cancelled_id
        count = _Count(checkpoint_id=cancelled_id, target_channel_count=self._num_open_channels, barrier=None)
        self._abort_on_cancellation(count)
        if not count.mark_aligned(channel):
            self._pending.append(count)

    def process_end_of_partition(self, channel: InputChannelInfo) -> None:
        """Count the channel for all pending checkpoints, or abort all of them (C23)."""
        self._num_open_channels -= 1
        if self._counts_ended_channels:
            self._mark_ended(channel)
            return
        reason = CheckpointFailureReason.CHECKPOINT_DECLINED_INPUT_END_OF_STREAM
        while self._pending:
            self._abort(self._pending.popleft(), reason)

    def _mark_ended(self, channel: InputChannelInfo) -> None:
        for count in reversed(self._pending):
            if count.mark_aligned(channel):
                self._complete(count)
                return

    def close(self) -> None: ...

    @property
    def pending_checkpoint_ids(self) -> tuple[int, ...]:
        """Pending checkpoints, cancelled ones included."""
        return tuple(count.checkpoint_id for count in self._pending)

    @property
    def latest_checkpoint_id(self) -> int:
        """The highest checkpoint that was begun or cancelled; -1 before the first."""
        return self._latest_id

    @property
    def is_checkpoint_pending(self) -> bool:
        return bool(self._pending)

    def all_barriers_received_future(self, checkpoint_id: int) -> Future[None]:
        """Always an error: nothing in flight is captured, so nothing waits for the last barrier."""
        raise WrongState(
            f"barriers of checkpoint {checkpoint_id} are only counted, not awaited; use SingleCheckpointBarrierHandler"
        )

    def _complete(self, count: _Count) -> None:
        """Drop the checkpoint and older ones, which can no longer complete; trigger it unless it was cancelled."""
        while self._pending.popleft() is not count:
            pass
        if not count.aborted:
            self._trigger(count)

    def _trigger(self, count: _Count) -> None:
        assert count.barrier is not None, "a checkpoint without a barrier was cancelled"
        if count.checkpoint_id == self._latest_id:
            self._clock.end()
        metadata = CheckpointMetaData(checkpoint_id=count.checkpoint_id, timestamp=count.barrier.timestamp)
        self._task.trigger_checkpoint_on_barrier(metadata, count.barrier.options, self._clock.metrics)

    def _abort_on_cancellation(self, count: _Count) -> None:
        self._abort(count, CheckpointFailureReason.CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER)

    def _abort(self, count: _Count, reason: CheckpointFailureReason) -> None:
        if not count.mark_aborted():
            return
        if count.checkpoint_id == self._latest_id:
            self._clock.reset()
        self._task.abort_checkpoint_on_barrier(count.checkpoint_id, CheckpointException(reason))
