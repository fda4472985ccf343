"""Completed checkpoints as files, for a coordinator that comes after the one that wrote them.

Answers to Flink's `Checkpoints` (`storeCheckpointMetadata`, `loadCheckpointMetadata`). Invariant: what is read back is
what was written, or an error that names the file, and where it can the operator and its state
(`snapshots.snapshot_file`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reference_impl.checkpoint_options import SnapshotType
from reference_impl.coordination.checkpoint_properties import CheckpointProperties
from reference_impl.coordination.completed_checkpoint import CompletedCheckpoint, OperatorState
from reference_impl.snapshots.checkpoint_storage import CheckpointStorage
from reference_impl.snapshots.snapshot_file import CompletedSnapshot
from reference_impl.snapshots.snapshot_unreadable import SnapshotDefect, SnapshotUnreadable
from reference_impl.snapshots.task_state_snapshot import OperatorSubtaskState, TaskStateSnapshot

__all__ = ["FileCheckpointStorage"]


class FileCheckpointStorage:
    """The checkpoints of one job in a folder, which is the only memory that it has."""

    def __init__(self, files: CheckpointStorage) -> None:
        self._files = files

    def write(self, checkpoint: CompletedCheckpoint) -> None:
        """Each operator of each subtask is a section of its own, so that an error can name it."""
        self._files.write(
            CompletedSnapshot(
                job_id=checkpoint.job_id,
                checkpoint_id=checkpoint.checkpoint_id,
                tasks={
                    f"{operator}/{subtask}": TaskStateSnapshot(operator_states={operator: mine})
                    for operator, state in checkpoint.operator_states.items()
                    for subtask, mine in state.subtask_states.items()
                },
                metadata=_metadata(checkpoint),
            )
        )

    def read(self, checkpoint_id: int) -> CompletedCheckpoint:
        """Raises SnapshotUnreadable."""
        snapshot = self._files.read(checkpoint_id)
        try:
            return _completed(snapshot)
        except (KeyError, TypeError, ValueError) as error:
            detail = f"it is not a coordinator's: {error!r}"
            path = self._files.path_of(checkpoint_id)
            raise SnapshotUnreadable(SnapshotDefect.NO_SNAPSHOT, detail, path=path) from error

    def discard(self, checkpoint_id: int) -> None:
        self._files.discard(checkpoint_id)

    def checkpoint_ids(self) -> list[int]:
        return self._files.checkpoint_ids


def _metadata(checkpoint: CompletedCheckpoint) -> dict[str, Any]:
    return {
        "timestamp_ms": checkpoint.timestamp_ms,
        "completion_timestamp_ms": checkpoint.completion_timestamp_ms,
        "snapshot_type": checkpoint.properties.snapshot_type.name,
        "is_forced": checkpoint.properties.is_forced,
        "operators": {
            operator: {
                "parallelism": state.parallelism,
                "max_parallelism": state.max_parallelism,
                "is_fully_finished": state.is_fully_finished,
            }
            for operator, state in checkpoint.operator_states.items()
        },
    }


def _completed(snapshot: CompletedSnapshot) -> CompletedCheckpoint:
    metadata = snapshot.metadata
    return CompletedCheckpoint(
        job_id=snapshot.job_id,
        checkpoint_id=snapshot.checkpoint_id,
        timestamp_ms=metadata["timestamp_ms"],
        completion_timestamp_ms=metadata["completion_timestamp_ms"],
        properties=CheckpointProperties(
            snapshot_type=SnapshotType[metadata["snapshot_type"]], is_forced=metadata["is_forced"]
        ),
        operator_states={
            operator: OperatorState(
                operator_id=operator, subtask_states=_subtask_states(operator, snapshot.tasks), **of_operator
            )
            for operator, of_operator in metadata["operators"].items()
        },
    )


def _subtask_states(
    operator: str, tasks: Mapping[str, TaskStateSnapshot | None]
) -> dict[int, OperatorSubtaskState]:
    return {
        int(name.rpartition("/")[2]): task.operator_states[operator]
        for name, task in tasks.items()
        if task is not None and operator in task.operator_states
    }
