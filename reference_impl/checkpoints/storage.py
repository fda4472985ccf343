"""The completed checkpoints of one job, stored in one folder, and the choice among them at a restore.

Answers to Flink's `FsCheckpointStorageAccess` and to the recovery of a `CompletedCheckpointStore`. Invariant: a
restore uses the newest checkpoint or fails. An older one is used only if the policy allows it, and the result then
names the newer ones that were skipped and why, so that its reader knows what will be replayed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from reference_impl.checkpoints.snapshot_file import (
    CompletedSnapshot,
    SnapshotDefect,
    SnapshotUnreadable,
    read_snapshot,
    write_snapshot,
)
from reference_impl.checkpoints.task_state import OperatorSubtaskState

__all__ = ["CheckpointStorage", "RestorePolicy", "refuse_unknown_operators"]

_PREFIX = "checkpoint-"


class RestorePolicy(Enum):
    """What to do when the newest checkpoint cannot be read."""

    NEWEST_ONLY = "the newest checkpoint, or none"
    """Fail. Restoring an older checkpoint would publish some output a second time."""
    PREVIOUS_IF_UNREADABLE = "the newest checkpoint that can be read"
    """Restore an older one, for a job whose output may be repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreChoice:
    """What to restore; `snapshot` is None if there is no checkpoint."""

    snapshot: CompletedSnapshot | None
    passed_over: tuple[SnapshotUnreadable, ...] = ()
    """Newer checkpoints that could not be read, newest first."""

    def __str__(self) -> str:
        if self.snapshot is None:
            return "there is no checkpoint; the job begins anew"
        chosen = f"restored from checkpoint {self.snapshot.checkpoint_id}"
        why = "; ".join(map(str, self.passed_over))
        return f"{chosen}, which is not the newest: {why}" if why else chosen


class CheckpointStorage:
    """The checkpoints of job `job_id` in `folder`. All state is in the folder, so any process may use it."""

    def __init__(self, folder: Path, *, job_id: str) -> None:
        self._folder = folder
        self._job_id = job_id

    @property
    def checkpoint_ids(self) -> list[int]:
        """Ids of the files in the folder, oldest first; they may be unreadable."""
        numbers = (path.stem.removeprefix(_PREFIX) for path in self._folder.glob(f"{_PREFIX}*.snapshot"))
        return sorted(int(number) for number in numbers if number.isdecimal())

    def path_of(self, checkpoint_id: int) -> Path:
        return self._folder / f"{_PREFIX}{checkpoint_id:06d}.snapshot"

    def write(self, snapshot: CompletedSnapshot) -> Path:
        """Write `snapshot` durably; only after this returns does the checkpoint count as complete (C35)."""
        if snapshot.job_id != self._job_id:
            message = (
                f"checkpoint {snapshot.checkpoint_id} is of job {snapshot.job_id!r}, not of {self._job_id!r}"
            )
            raise ValueError(f"{message}; give each job a storage of its own")
        path = self.path_of(snapshot.checkpoint_id)
        write_snapshot(path, snapshot)
        return path

    def read(self, checkpoint_id: int) -> CompletedSnapshot:
        """Raises SnapshotUnreadable, also if the file holds a checkpoint with another id than its name says."""
        path = self.path_of(checkpoint_id)
        snapshot = read_snapshot(path, job_id=self._job_id)
        if snapshot.checkpoint_id != checkpoint_id:
            detail = f"it holds checkpoint {snapshot.checkpoint_id}"
            raise SnapshotUnreadable(SnapshotDefect.ALTERED, detail, path=path)
        return snapshot

    def restore(self, policy: RestorePolicy = RestorePolicy.NEWEST_ONLY) -> RestoreChoice:
        """The newest checkpoint, or the newest readable one if `policy` allows. Raises SnapshotUnreadable (C37)."""
        passed_over: list[SnapshotUnreadable] = []
        for checkpoint_id in reversed(self.checkpoint_ids):
            try:
                snapshot = self.read(checkpoint_id)
            except SnapshotUnreadable as unreadable:
                if policy is RestorePolicy.NEWEST_ONLY:
                    raise
                passed_over.append(unreadable)
            else:
                return RestoreChoice(snapshot=snapshot, passed_over=tuple(passed_over))
        if passed_over:
            newest, *others = passed_over
            for other in others:
                newest.add_note(f"neither can an earlier one be read: {other}")
            raise newest
        return RestoreChoice(snapshot=None)

    def discard(self, checkpoint_id: int) -> None:
        """Delete a checkpoint if it exists."""
        self.path_of(checkpoint_id).unlink(missing_ok=True)


def refuse_unknown_operators(snapshot: CompletedSnapshot, *, known: Collection[str], path: Path) -> None:
    """Raise SnapshotUnreadable for state of an operator that the job does not have, which would be lost unnoticed."""
    for operator_id, state in _states(snapshot):
        if operator_id not in known and state.has_state:
            detail = f"the job has {', '.join(sorted(known)) or 'no operators'}"
            raise SnapshotUnreadable(
                SnapshotDefect.UNKNOWN_STATE,
                detail,
                path=path,
                operator_id=operator_id,
                state=next(iter(state.handles)),
            )


def _states(snapshot: CompletedSnapshot) -> Iterator[tuple[str, OperatorSubtaskState]]:
    for task in snapshot.tasks.values():
        if task is not None:
            yield from task.operator_states.items()
