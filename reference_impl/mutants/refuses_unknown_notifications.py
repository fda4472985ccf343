"""Planted defect: a two-phase sink takes a notification that it has nothing for to be an error.

Answers to FLINK-10377 and FLINK-14979 (C38): notifications may be late, repeated, or meant for an earlier run, so the
check ends jobs that are all right. Where each checkpoint is notified once and at once, the mutant is the reference.
"""

from __future__ import annotations

from reference_impl.functions.two_phase_commit_sink import TwoPhaseCommitSinkFunction

__all__ = ["StrictSink"]


class StrictSink(TwoPhaseCommitSinkFunction):
    """Insists on knowing what it is notified of."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        assert checkpoint_id in self.pending, f"checkpoint {checkpoint_id} completed, but is not pending"
        super().notify_checkpoint_complete(checkpoint_id)
