"""Planted defect: a two-phase sink commits in the snapshot, and does not wait for the checkpoint to complete.

Answers to a sink with one phase (C40): if the checkpoint is lost, what was shown is written again. Where nothing dies,
what is visible in the end is the same, only earlier.
"""

from __future__ import annotations

from reference_impl.checkpoints.state_handler import FunctionSnapshotContext
from reference_impl.functions.two_phase_commit_sink import TwoPhaseCommitSinkFunction

__all__ = ["OnePhaseSink"]


class OnePhaseSink(TwoPhaseCommitSinkFunction):
    """Shows what it has pre-committed at once."""

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        super().snapshot_state(context)
        self.notify_checkpoint_complete(context.checkpoint_id)
