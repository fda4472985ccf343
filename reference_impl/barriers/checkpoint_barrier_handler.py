"""Who brings the barriers of several channels together, what it needs and whom it tells.

Answers to Flink's `CheckpointBarrierHandler`, `CheckpointableTask` and `CheckpointableInput`. Invariant: each
checkpoint is begun at most once and given up at most once, and nothing is told of one that is not above the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Protocol

from reference_impl.barriers.input_channel_info import InputChannelInfo
from reference_impl.checkpoint_failure import CheckpointException
from reference_impl.checkpoint_metadata import CheckpointMetaData, CheckpointMetrics
from reference_impl.checkpoint_options import CheckpointOptions
from reference_impl.events import CancelCheckpointMarker, CheckpointBarrier

__all__ = ["CheckpointBarrierHandler", "CheckpointableInput", "CheckpointableTask", "InitInputCheckpoint"]


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
