"""What a subtask's checkpoints ask of the operators.

Answers to the checkpoint side of Flink's `OperatorChain`. Invariant: whoever goes through the operators calls
every one, and raises the first error behind the last (C12).
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Protocol

from reference_impl.checkpoint_metadata import CheckpointMetaData
from reference_impl.checkpoint_options import CheckpointOptions
from reference_impl.events import ChannelEvent, CheckpointBarrier
from reference_impl.snapshots.operator_snapshot_futures import OperatorSnapshotFutures

__all__ = ["CheckpointedChain"]


class CheckpointedChain(Protocol):
    """The operators of one task, and the way out behind them."""

    @property
    def operator_ids(self) -> Sequence[str]:
        """From head to tail."""

    @property
    def is_task_deployed_as_finished(self) -> bool:
        """Whether none of them runs, for they had finished in an earlier run (C19)."""

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        """What has to leave before the barrier leaves now; from head to tail (C3)."""

    def broadcast_event(self, event: ChannelEvent, *, is_priority: bool) -> None:
        """Into every channel behind the task; with priority, past what is in flight there."""

    def snapshot_state(
        self,
        futures: MutableMapping[str, OperatorSnapshotFutures],
        metadata: CheckpointMetaData,
        options: CheckpointOptions,
    ) -> None:
        """Fill `futures`, by operator, from tail to head, without the closed (C3). Raises what an operator raises."""

    def alignment_barrier_timeout(self, barrier: CheckpointBarrier) -> None:
        """The barrier has not left in time: it overtakes what is in flight behind the task (C26)."""

    def abort_checkpoint(self, checkpoint_id: int) -> None:
        """Nobody waits for its barrier any more, where it has not left yet."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """To operators that are not closed (C13)."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """To all operators, from tail to head (C12)."""

    def notify_checkpoint_subsumed(self, checkpoint_id: int) -> None:
        """To the operators' backends (C13)."""
