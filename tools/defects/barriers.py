"""Defects of barriers and watermarks: barrier handlers, input channels, and the valve of several inputs.

Answers to bugs of `SingleCheckpointBarrierHandler`, `RemoteInputChannel` and `StatusWatermarkValve`. Invariant: each
wrong class is a subclass of the reference's, with one decision changed.
"""

from __future__ import annotations

from typing import Any

from harness.sut.defects.defect import NEVER, SIM_AND_LIVE, Defect
from harness.sut.rescaling import KeyedParts
from harness.sut.variant import Variant
from reference_impl.checkpoint_events import (
    CancelCheckpointMarker,
    CheckpointBarrier,
    CheckpointException,
    CheckpointFailureReason,
    CheckpointMetaData,
    CheckpointMetrics,
)
from reference_impl.checkpoints.barrier_states import ChannelState
from reference_impl.checkpoints.channels import ChannelElement, InputChannel, InputChannelInfo
from reference_impl.checkpoints.input_gate import MIN_TIMESTAMP, StatusWatermarkValve, WatermarkOutput
from reference_impl.checkpoints.single_barrier_handler import SingleCheckpointBarrierHandler, Transition
from reference_impl.elements import Watermark, WatermarkStatus
from tools.defects.kinds import PropertyDefect


class _SnapshotsAtFirstBarrier(SingleCheckpointBarrierHandler):
    """Takes the snapshot at the first barrier of a checkpoint, and lets the others pass. Mutable."""

    _latest = -1

    def process_barrier(
        self, barrier: CheckpointBarrier, channel: InputChannelInfo, *, is_rpc_triggered: bool = False
    ) -> None:
        del is_rpc_triggered
        if barrier.checkpoint_id > self._latest:
            self._latest = barrier.checkpoint_id
            metadata = CheckpointMetaData(checkpoint_id=barrier.checkpoint_id, timestamp=barrier.timestamp)
            self._task.trigger_checkpoint_on_barrier(metadata, barrier.options, CheckpointMetrics())
        self._channels.resume_channel(channel)


class _StaysBlocked(ChannelState):
    is_aborting = False

    def unblock_all_channels(self) -> None:
        if not self.is_aborting:
            super().unblock_all_channels()


class _AbortLeavesBlocked(SingleCheckpointBarrierHandler):
    """Never reads again from the channels that had brought their barrier when the checkpoint was aborted."""

    channel_state = _StaysBlocked

    def _abort(self, cancelled_id: int, exception: CheckpointException) -> None:
        assert isinstance(self._channels, _StaysBlocked)
        self._channels.is_aborting = True
        super()._abort(cancelled_id, exception)
        self._channels.is_aborting = False


class _StaleBarrierBlocks(SingleCheckpointBarrierHandler):
    """Ignores an old barrier, but does not resume its channel, which stopped behind it by itself."""

    def process_barrier(
        self, barrier: CheckpointBarrier, channel: InputChannelInfo, *, is_rpc_triggered: bool = False
    ) -> None:
        if not self._is_obsolete(barrier.checkpoint_id):
            super().process_barrier(barrier, channel, is_rpc_triggered=is_rpc_triggered)


class _EndLosesBarrier(SingleCheckpointBarrierHandler):
    """Waits for a channel that has ended: for ever, or until a barrier of a newer checkpoint comes."""

    def process_end_of_partition(self, channel: InputChannelInfo) -> None:
        self._open.pop(channel, None)


class _LateCancelAbortsNewer(SingleCheckpointBarrierHandler):
    """Does not compare a marker's number: a late one ends a newer checkpoint, whose barriers are on their way."""

    def process_cancellation_barrier(self, marker: CancelCheckpointMarker, channel: InputChannelInfo) -> None:
        if self.is_checkpoint_pending and marker.checkpoint_id < self.latest_checkpoint_id:
            reason = CheckpointFailureReason.CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER
            self._abort(self.latest_checkpoint_id, CheckpointException(reason))
        else:
            super().process_cancellation_barrier(marker, channel)


class _OvertakenFailsTask(SingleCheckpointBarrierHandler):
    """Fails the task when a newer barrier came while an unaligned checkpoint was being taken."""

    def _transform(self, change: Transition) -> bool:
        self._state = change(self._state)
        return True


class _CapturesNothing(InputChannel):
    """Lets a barrier overtake records without keeping them: they are in no snapshot, and lost after a restore."""

    def checkpoint_started(self, barrier: CheckpointBarrier) -> None:
        """Nothing."""


class _CapturesBehindBarrier(InputChannel):
    """Captures until the last barrier of all channels, not until its own.

    After a restore those records exist twice: from the snapshot, and from the sender.
    """

    def put(self, element: ChannelElement) -> None:
        capturing = self._capturing
        super().put(element)
        if isinstance(element, CheckpointBarrier) and element.checkpoint_id == capturing:
            self._capturing = capturing


class _HighestWatermarkValve(StatusWatermarkValve):
    """Emits the highest watermark of all inputs instead of the lowest. Mutable."""

    def __init__(self, inputs: int) -> None:
        super().__init__(inputs)
        self._highest: int | None = None

    def input_watermark(self, watermark: Watermark, channel_index: int, output: Any) -> None:
        del channel_index
        if self._highest is None or watermark.timestamp > self._highest:
            self._highest = watermark.timestamp
            output.emit(watermark)


class _IdleInputsCountValve(StatusWatermarkValve):
    """Ignores the status of an input, which so holds the watermark back while it is idle. Mutable."""

    def input_watermark_status(
        self, status: WatermarkStatus, channel_index: int, output: WatermarkOutput
    ) -> None:
        """Nothing."""


class _NothingWhenAllIdleValve(StatusWatermarkValve):
    """Lets no watermark out when the last input falls idle, so what an idle one had reached is lost. Mutable."""

    def _falls_idle(self, channel: Any, output: WatermarkOutput) -> None:
        if all(other.idle for other in self._channels):
            channel.aligned = False
            self._idle = True
            output.emit(WatermarkStatus(idle=True))
        else:
            super()._falls_idle(channel, output)


class _NewChannelLeftOut(StatusWatermarkValve):
    """Lets the watermark run ahead of what a channel that is new after a rescale has yet to bring (V4, V5)."""

    def _emit_least_aligned(self, output: WatermarkOutput) -> None:
        known = [
            channel.watermark
            for channel in self._channels
            if channel.aligned and channel.watermark != MIN_TIMESTAMP
        ]
        if known:
            self._emit_above_last(min(known), output)


class _IdleOrderDecides(StatusWatermarkValve):
    """Emits only the status with the last channel that falls idle.

    The highest watermark never leaves if its channel fell idle earlier. Part of it was left until FLINK-40475.
    """

    def input_watermark_status(
        self, status: WatermarkStatus, channel_index: int, output: WatermarkOutput
    ) -> None:
        channel = self._channels[channel_index]
        others_idle = all(other.idle for other in self._channels if other is not channel)
        if status.idle and not channel.idle and others_idle:
            channel.idle, channel.aligned, self._idle = True, False, True
            output.emit(status)
        else:
            super().input_watermark_status(status, channel_index, output)


_HANDLER = "SingleCheckpointBarrierHandler"

OF_BARRIERS = (
    Defect(
        name="snapshot-at-first-barrier",
        about="the snapshot is taken at the first barrier of a checkpoint, before those of other inputs have come",
        mirrors="FLINK-24068, an alignment that does not wait",
        convicted_by=("V10",),
        variant=Variant(keyed=KeyedParts(barrier_handler=_SnapshotsAtFirstBarrier.aligned)),
        where="`sessions-while-aligning`",
        applies=NEVER,
        scenario="sessions-while-aligning",
    ),
    PropertyDefect(
        name="abort-leaves-blocked",
        about="the channels of an aborted checkpoint stay blocked",
        mirrors="FLINK-18238, in its effect",
        replaces=_HANDLER,
        statements=("C21", "C24", "C25"),
        wrong=_AbortLeavesBlocked,
    ),
    PropertyDefect(
        name="stale-barrier-blocks",
        about="a barrier of an obsolete checkpoint leaves its channel blocked",
        mirrors="an ignored barrier whose channel is not resumed",
        replaces=_HANDLER,
        statements=("C20",),
        wrong=_StaleBarrierBlocks,
    ),
    PropertyDefect(
        name="end-loses-barrier",
        about="the end of a channel does not count as its barrier",
        mirrors="a barrier that is dropped at the end of a partition",
        replaces=_HANDLER,
        statements=("C23",),
        wrong=_EndLosesBarrier,
    ),
    PropertyDefect(
        name="late-cancel-aborts-newer",
        about="a cancellation marker ends the pending checkpoint, whatever its number",
        mirrors="a marker whose number is not compared",
        replaces=_HANDLER,
        statements=("C24",),
        wrong=_LateCancelAbortsNewer,
    ),
    PropertyDefect(
        name="overtaken-fails-task",
        about="a checkpoint that a newer barrier has overtaken fails the task",
        mirrors="FLINK-20331",
        replaces=_HANDLER,
        statements=("C21",),
        wrong=_OvertakenFailsTask,
    ),
    PropertyDefect(
        name="unaligned-captures-nothing",
        about="the records that an unaligned barrier overtakes are not captured",
        mirrors="an unaligned checkpoint without channel state",
        replaces="InputChannel",
        statements=("C27", "C28"),
        wrong=_CapturesNothing,
    ),
    Defect(
        name="channel-state-lost",
        about="a checkpoint whose barriers overtook records does not hold them, so a restart loses them",
        mirrors="an unaligned checkpoint without channel state",
        convicted_by=("V8",),
        variant=Variant(keyed=KeyedParts(channel=_CapturesNothing)),
        where="`sessions-unaligned`",
        applies=NEVER,
        scenario="sessions-unaligned",
        levels=SIM_AND_LIVE,
    ),
    PropertyDefect(
        name="captures-behind-barrier",
        about="records behind a channel's barrier are captured as if they were in flight before it",
        mirrors="a capture that ends with the last barrier of all channels",
        replaces="InputChannel",
        statements=("C27", "C28"),
        wrong=_CapturesBehindBarrier,
    ),
    Defect(
        number=26,
        name="min-watermark-lost",
        about="of several inputs the highest watermark counts, not the lowest",
        mirrors="FLINK-40517, FLINK-18934",
        convicted_by=("V8",),
        variant=Variant(keyed=KeyedParts(valve=_HighestWatermarkValve)),
        where="`sessions-of-the-slower-input`",
        applies=NEVER,
        scenario="sessions-of-the-slower-input",
    ),
    Defect(
        name="idle-input-counts",
        about="an idle input holds the watermark back as if it were active",
        mirrors="FLINK-18934",
        convicted_by=("V8", "V6"),
        variant=Variant(keyed=KeyedParts(valve=_IdleInputsCountValve)),
        where="`sessions-of-idle-inputs`",
        applies=NEVER,
        scenario="sessions-of-idle-inputs",
        levels=SIM_AND_LIVE,
    ),
    Defect(
        name="all-idle-lets-nothing-out",
        about="when all inputs have fallen idle, the highest watermark stays in the task",
        mirrors="FLINK-40475",
        convicted_by=("V8", "V6"),
        variant=Variant(keyed=KeyedParts(valve=_NothingWhenAllIdleValve)),
        where="`sessions-all-idle`",
        applies=NEVER,
        scenario="sessions-all-idle",
        levels=SIM_AND_LIVE,
    ),
    PropertyDefect(
        name="new-channel-left-out",
        about="a channel that has brought no watermark yet does not hold the lowest one back",
        mirrors="FLINK-40517",
        replaces="StatusWatermarkValve",
        statements=("W1",),
        wrong=_NewChannelLeftOut,
    ),
    PropertyDefect(
        name="idle-order-decides",
        about="the watermark that leaves when all channels are idle depends on which one fell idle last",
        mirrors="FLINK-7728, FLINK-40475",
        replaces="StatusWatermarkValve",
        statements=("W3",),
        wrong=_IdleOrderDecides,
    ),
)
