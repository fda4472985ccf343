"""Which of the completed checkpoints a job goes back to, and what it had to pass over.

Answers to the recovery of Flink's `DefaultCompletedCheckpointStoreUtils` and to `restoreLatestCheckpointedState`.
Invariant: the highest that is complete, savepoint or not (C37); an earlier one only where the policy says so, and
then the result says it too: what later ones have published already is published again.
"""

from __future__ import annotations

from dataclasses import dataclass

from reference_impl.coordination.completed_checkpoint import CompletedCheckpoint
from reference_impl.coordination.completed_checkpoint_store import (
    CheckpointMetadataStorage,
    CompletedCheckpointStore,
)
from reference_impl.snapshots.checkpoint_storage import RestorePolicy
from reference_impl.snapshots.snapshot_unreadable import SnapshotUnreadable

__all__ = ["RecoveredCheckpoint", "read_latest", "recovered_store"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredCheckpoint:
    """What the job goes back to; None: to its beginning, for there is no checkpoint."""

    checkpoint: CompletedCheckpoint | None = None
    passed_over: tuple[SnapshotUnreadable, ...] = ()
    """Later ones that could not be read, the latest first."""

    @property
    def checkpoint_id(self) -> int | None:
        """Of what is restored."""
        return None if self.checkpoint is None else self.checkpoint.checkpoint_id

    def __str__(self) -> str:
        if self.checkpoint is None:
            return "there is no checkpoint; the job begins anew"
        why = "; ".join(map(str, self.passed_over))
        return f"restored from checkpoint {self.checkpoint_id}" + (
            f", which is not the latest: {why}" if why else ""
        )


def read_latest(store: CompletedCheckpointStore, policy: RestorePolicy) -> RecoveredCheckpoint:
    """Read the highest back. Raises SnapshotUnreadable if the policy allows no earlier one, or none can be read.

    Those that are passed over leave the store; their files stay for whoever looks.
    """
    passed_over: list[SnapshotUnreadable] = []
    for kept in reversed(list(store)):
        try:
            checkpoint = store.storage.read(kept.checkpoint_id)
        except SnapshotUnreadable as unreadable:
            _pass_over(unreadable, policy, passed_over)
        else:
            for doomed in list(store):
                if doomed.checkpoint_id > kept.checkpoint_id:
                    store.remove(doomed.checkpoint_id)
            return RecoveredCheckpoint(checkpoint=checkpoint, passed_over=tuple(passed_over))
    _refuse_if_all_are_unreadable(passed_over)
    return RecoveredCheckpoint()


def recovered_store(
    storage: CheckpointMetadataStorage, policy: RestorePolicy, *, max_retained: int = 1
) -> tuple[CompletedCheckpointStore, tuple[SnapshotUnreadable, ...]]:
    """The store of a coordinator that begins where another ended, and what it lacks; raises as `read_latest`."""
    passed_over: list[SnapshotUnreadable] = []
    checkpoints: list[CompletedCheckpoint] = []
    for checkpoint_id in reversed(storage.checkpoint_ids()):
        try:
            checkpoints.append(storage.read(checkpoint_id))
        except SnapshotUnreadable as unreadable:
            if not checkpoints:  # else it is an old one, of which nobody wants anything
                _pass_over(unreadable, policy, passed_over)
    if not checkpoints:
        _refuse_if_all_are_unreadable(passed_over)
    store = CompletedCheckpointStore(storage=storage, max_retained=max_retained, checkpoints=checkpoints)
    return store, tuple(passed_over)


def _pass_over(
    unreadable: SnapshotUnreadable, policy: RestorePolicy, passed_over: list[SnapshotUnreadable]
) -> None:
    if policy is RestorePolicy.NEWEST_ONLY:
        raise unreadable
    passed_over.append(unreadable)


def _refuse_if_all_are_unreadable(passed_over: list[SnapshotUnreadable]) -> None:
    """To begin anew is no restore: it would publish everything again."""
    if passed_over:
        latest, *others = passed_over
        for other in others:
            latest.add_note(f"neither can an earlier one be read: {other}")
        raise latest
