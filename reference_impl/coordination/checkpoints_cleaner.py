"""Whoever discards what no checkpoint refers to any more, and keeps account of it.

Answers to Flink's `CheckpointsCleaner` and to the accounting that its coordinator does with recent checkpoints.
Invariant: what tasks wrote is referenced by a pending or completed checkpoint, or is discarded, once (C34).

Deviation: Flink's messages are not repeated, so there a late acknowledgement is always discarded; here it may be the
second copy of one whose state a completed checkpoint refers to, and then nothing is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from reference_impl.coordination.completed_checkpoint import StateHandle
from reference_impl.coordination.execution_graph import ExecutionAttemptID

__all__ = ["RECENT_CHECKPOINTS", "CheckpointsCleaner", "Executor"]

Executor = Callable[[Callable[[], None]], None]
"""Runs an action, now or later."""

RECENT_CHECKPOINTS = 1_000
"""So many are remembered: a message that was under way for longer is discarded as it comes."""


class CheckpointsCleaner:
    """Mutable: knows what is being cleaned, and what was accounted for."""

    def __init__(
        self, *, executor: Executor, discard: Callable[[StateHandle], None] = StateHandle.discard
    ) -> None:
        self._discard = discard
        self._executor = executor
        self._accounted: dict[int, set[ExecutionAttemptID]] = {}
        self._cleaning = 0
        self.on_cleaned: Callable[[], None] = lambda: None
        """Told each time that something was cleaned: a request may be waiting for that (C32)."""

    @property
    def number_of_checkpoints_to_clean(self) -> int:
        """Of those whose cleaning has begun and not ended."""
        return self._cleaning

    def account_for(self, checkpoint_id: int, task: ExecutionAttemptID) -> bool:
        """Note that a task's state has come, to be kept or discarded; False if it had come before."""
        tasks = self._accounted.setdefault(checkpoint_id, set())
        if len(self._accounted) > RECENT_CHECKPOINTS:
            del self._accounted[min(self._accounted)]
        is_first = task not in tasks
        tasks.add(task)
        return is_first

    def clean_late(self, handle: StateHandle) -> None:
        """Discard what nobody waits for, unless it is the copy of something that was accounted for."""
        if self.account_for(handle.checkpoint_id, handle.task):
            self._discard(handle)

    def clean_checkpoint(
        self, handles: Iterable[StateHandle], *, drop_metadata: Callable[[], None] = lambda: None
    ) -> None:
        """Discard what a checkpoint that has ended refers to, through the executor; first what refers to it."""
        self._cleaning += 1
        doomed = tuple(handles)

        def clean() -> None:
            try:
                drop_metadata()
                for handle in doomed:
                    self._discard(handle)
            finally:
                self._cleaning -= 1
                self.on_cleaned()

        self._executor(clean)
