"""Planted defect: a checkpoint that cannot be taken any more fails the task.

Answers to FLINK-20331: an unaligned checkpoint cut when a newer barrier had already come into another channel (C21).
It is to be given up as overtaken, and the task goes on.
"""

from __future__ import annotations

from reference_impl.checkpoints.single_barrier_handler import (
    SingleCheckpointBarrierHandler,
    Transition,
)

__all__ = ["OvertakenFailsTask"]


class OvertakenFailsTask(SingleCheckpointBarrierHandler):
    """Lets everything rise."""

    def _transform(self, change: Transition) -> bool:
        self._state = change(self._state)
        return True
