"""The marks of checkpoints that were aborted before their barriers came.

Answers to the set of aborted ids in Flink's `SubtaskCheckpointCoordinatorImpl`. Invariant: it never holds more
marks than its limit (C12); an id so far below the highest mark that its own could have been pushed out counts as
aborted, so that no snapshot is taken for a checkpoint that nobody waits for.
"""

from __future__ import annotations

__all__ = ["AbortedCheckpoints"]


class AbortedCheckpoints:
    """A bounded set of ids. Mutable."""

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"the marks of aborted checkpoints are limited to {limit}; give 1 or more")
        self._limit = limit
        self._marks: dict[int, None] = {}
        self._highest = 0

    def __len__(self) -> int:
        """The marks that are kept."""
        return len(self._marks)

    def add(self, checkpoint_id: int) -> None:
        """Remember it; the oldest mark goes when there is no room (C12)."""
        self._marks.setdefault(checkpoint_id)
        self._highest = max(self._highest, checkpoint_id)
        if len(self._marks) > self._limit:
            del self._marks[next(iter(self._marks))]

    def take(self, checkpoint_id: int) -> bool:
        """Whether it was aborted; its mark has then served."""
        if checkpoint_id in self._marks:
            del self._marks[checkpoint_id]
            return True
        return checkpoint_id + self._limit < self._highest

    def forget_below(self, checkpoint_id: int) -> None:
        """No barrier of a lower id counts any more (C1)."""
        for mark in [mark for mark in self._marks if mark < checkpoint_id]:
            del self._marks[mark]
