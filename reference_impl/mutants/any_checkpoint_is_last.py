"""Planted defect: a task whose data have ended is let go by whatever checkpoint completes next.

Answers to FLIP-147's final checkpoint (C18): one that began before the end of data does not hold what the
operators emitted in finishing, so that is never committed. Where no checkpoint is pending at the end, the mutant
is the reference.
"""

from __future__ import annotations

from reference_impl.task.stream_task import StreamTask
from reference_impl.task.task_checkpoints import TaskCheckpoints

__all__ = ["HastyTask"]


class _Checkpoints(TaskCheckpoints):
    def _is_last(self, checkpoint_id: int) -> bool:
        return self.has_end_of_data if self.sync_savepoint is None else super()._is_last(checkpoint_id)


class HastyTask(StreamTask):
    """It asks whether its data have ended, and not when the checkpoint began."""

    task_checkpoints = _Checkpoints
