"""Planted defect: a cancellation sets its flag, and wakes nobody.

Answers to FLINK-13124: a task that waits, for input or for its last checkpoint, never looks at the flag. Where the task
is busy, the mutant ends a little later than the reference.
"""

from __future__ import annotations

from reference_impl.task.stream_task import StreamTask

__all__ = ["TaskThatSleepsOn"]


class TaskThatSleepsOn(StreamTask):
    """Its loop does not hear of the cancellation."""

    def cancel(self) -> None:
        """Without the mail that ends the loop."""
        self.is_canceled = True
        self.is_running = False
        self._checkpoints.cancel()
