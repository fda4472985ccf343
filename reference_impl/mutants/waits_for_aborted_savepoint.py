"""Planted defect: a task that stopped for a savepoint does not mind that the savepoint was aborted.

Answers to FLINK-23741 and C17: its data have ended, no checkpoint but the savepoint may end it, and that one will never
complete; the job hangs. Where savepoints succeed, the mutant is the reference.
"""

from __future__ import annotations

from reference_impl.checkpoint_events import CheckpointException
from reference_impl.task.stream_task import StreamTask
from reference_impl.task.task_checkpoints import TaskCheckpoints

__all__ = ["PatientTask"]


class _Checkpoints(TaskCheckpoints):
    def _require_no_sync_savepoint(
        self, checkpoint_id: int, cause: CheckpointException | None = None
    ) -> None:
        """It goes on waiting."""


class PatientTask(StreamTask):
    """It waits for what never comes."""

    task_checkpoints = _Checkpoints
