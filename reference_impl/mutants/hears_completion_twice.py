"""Planted defect: operators hear of a checkpoint as often as somebody tells the task.

Answers to C14: an abort brings the latest completed checkpoint along, and its own notification may come as well,
late or twice; who commits on each commits twice. Where every notification comes once, the mutant is the
reference.
"""

from __future__ import annotations

from reference_impl.task.stream_task import StreamTask
from reference_impl.task.task_checkpoints import TaskCheckpoints

__all__ = ["TaskThatRepeats"]


class _Checkpoints(TaskCheckpoints):
    def notify_complete(self, checkpoint_id: int) -> None:
        self._latest_reported = 0
        super().notify_complete(checkpoint_id)


class TaskThatRepeats(StreamTask):
    """It remembers no notification."""

    task_checkpoints = _Checkpoints
