"""Planted defect: a two-phase sink keeps the newest pre-committed transaction and forgets those before it.

Answers to a single pending transaction (C38, C40): when a notification is lost, or a checkpoint aborted, what it
held is never committed. Where each checkpoint is notified before the next, the mutant is the reference.
"""

from __future__ import annotations

from reference_impl.checkpoints.state_handler import FunctionSnapshotContext
from reference_impl.functions.two_phase_commit_sink import TwoPhaseCommitSinkFunction

__all__ = ["ShortMemorySink"]


class ShortMemorySink(TwoPhaseCommitSinkFunction):
    """Has room for one pending transaction."""

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self._pending.clear()
        super().snapshot_state(context)
