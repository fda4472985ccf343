"""The completed checkpoints of a job, of which it keeps the latest few.

Answers to Flink's `DefaultCompletedCheckpointStore` and `CheckpointSubsumeHelper`. Invariant: what is in it is
durable; ordered by number, whatever the order of completion: the highest wins (C37).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator
from typing import Protocol

from reference_impl.coordination.completed_checkpoint import CompletedCheckpoint
from reference_impl.errors import WrongState

__all__ = ["CheckpointMetadataStorage", "CompletedCheckpointStore", "MemoryCheckpointStorage"]


class CheckpointMetadataStorage(Protocol):
    """Where completed checkpoints outlive the coordinator."""

    def write(self, checkpoint: CompletedCheckpoint) -> None:
        """When this returns, it is durable; when it raises, nothing of it is left."""

    def read(self, checkpoint_id: int) -> CompletedCheckpoint:
        """As it was written; an error that names what is unreadable, if it is."""

    def discard(self, checkpoint_id: int) -> None:
        """Drop it."""

    def checkpoint_ids(self) -> list[int]:
        """Of all there are, ascending."""


class MemoryCheckpointStorage:
    """For jobs that need not outlive their process. Mutable."""

    def __init__(self) -> None:
        self._checkpoints: dict[int, CompletedCheckpoint] = {}

    def write(self, checkpoint: CompletedCheckpoint) -> None:
        self._checkpoints[checkpoint.checkpoint_id] = checkpoint

    def read(self, checkpoint_id: int) -> CompletedCheckpoint:
        return self._checkpoints[checkpoint_id]

    def discard(self, checkpoint_id: int) -> None:
        self._checkpoints.pop(checkpoint_id, None)

    def checkpoint_ids(self) -> list[int]:
        return sorted(self._checkpoints)


class CompletedCheckpointStore:
    """At most `max_retained` checkpoints, besides those that must not go. Mutable; iterates in ascending order.

    `checkpoints`: what an earlier run left (`checkpoint_recovery`), durable already.
    """

    def __init__(
        self,
        *,
        storage: CheckpointMetadataStorage,
        max_retained: int = 1,
        checkpoints: Iterable[CompletedCheckpoint] = (),
    ) -> None:
        if max_retained < 1:
            raise ValueError(f"max_retained is {max_retained}; give 1 or more, for a restore needs one")
        self.storage = storage
        self._max_retained = max_retained
        self._checkpoints = sorted(checkpoints, key=lambda kept: kept.checkpoint_id)

    def __iter__(self) -> Iterator[CompletedCheckpoint]:
        return iter(list(self._checkpoints))

    def __len__(self) -> int:
        return len(self._checkpoints)

    @property
    def latest_checkpoint(self) -> CompletedCheckpoint | None:
        """The one with the highest number, savepoint or not (C37)."""
        return self._checkpoints[-1] if self._checkpoints else None

    @property
    def latest_checkpoint_id(self) -> int:
        """Its number; 0 without any."""
        return self._checkpoints[-1].checkpoint_id if self._checkpoints else 0

    def add_checkpoint_and_subsume_oldest(self, checkpoint: CompletedCheckpoint) -> list[CompletedCheckpoint]:
        """Keep it, durably; those that are no longer kept because of it, ascending, to be cleaned by the caller."""
        if any(kept.checkpoint_id == checkpoint.checkpoint_id for kept in self._checkpoints):
            raise WrongState(f"checkpoint {checkpoint.checkpoint_id} is in the store already")
        self.storage.write(checkpoint)
        insort(self._checkpoints, checkpoint, key=lambda kept: kept.checkpoint_id)
        return self._subsume()

    def remove(self, checkpoint_id: int) -> None:
        """Keep it no longer; what was written of it stays."""
        self._checkpoints = [kept for kept in self._checkpoints if kept.checkpoint_id != checkpoint_id]

    def _subsume(self) -> list[CompletedCheckpoint]:
        """The oldest go first; never the latest, nor the latest that is no savepoint: users move and delete those."""
        plain = [kept for kept in self._checkpoints if not kept.properties.is_savepoint]
        must_stay = {self._checkpoints[-1].checkpoint_id, *(kept.checkpoint_id for kept in plain[-1:])}
        subsumed: list[CompletedCheckpoint] = []
        for kept in list(self._checkpoints):
            if len(self._checkpoints) <= self._max_retained:
                break
            if kept.checkpoint_id not in must_stay:
                self._checkpoints.remove(kept)
                subsumed.append(kept)
        return subsumed
