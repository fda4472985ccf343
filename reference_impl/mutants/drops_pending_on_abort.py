"""Planted defect: a two-phase sink takes the abort of a checkpoint for the end of its data.

Answers to C39: the data of an aborted checkpoint belong to the next one that completes. Where no checkpoint is
aborted, the mutant is the reference.
"""

from __future__ import annotations

from reference_impl.functions.two_phase_commit_sink import TwoPhaseCommitSinkFunction

__all__ = ["DroppingSink"]


class DroppingSink(TwoPhaseCommitSinkFunction):
    """Aborts what was pre-committed for an aborted checkpoint."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        dropped = self._pending.pop(checkpoint_id, None)
        if dropped is not None:
            self._transactions.abort(dropped.handle)
