"""Completed checkpoints: their content, the store of the latest few, their files, disposal and recovery.

Answers to Flink's `CompletedCheckpoint`, `DefaultCompletedCheckpointStore`, `Checkpoints` and `CheckpointsCleaner`,
and to the recovery of `DefaultCompletedCheckpointStoreUtils` and `restoreLatestCheckpointedState`. Invariant: the
store is ordered by id, and a job restarts from the completed checkpoint with the highest id, savepoint or not (C37).
It uses an older one only if the policy allows it, and the result says so: output of the newer ones is then published
again.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from reference_impl.checkpoint_events import SnapshotType
from reference_impl.checkpoints.snapshot_file import CompletedSnapshot, SnapshotDefect, SnapshotUnreadable
from reference_impl.checkpoints.storage import CheckpointStorage, RestorePolicy
from reference_impl.checkpoints.task_state import OperatorSubtaskState, TaskStateSnapshot
from reference_impl.errors import WrongState
from reference_impl.job.execution_graph import ExecutionAttemptID
from reference_impl.job.messages import CheckpointProperties

__all__ = [
    "RECENT_CHECKPOINTS",
    "CheckpointMetadataStorage",
    "CheckpointsCleaner",
    "CompletedCheckpoint",
    "CompletedCheckpointStore",
    "Executor",
    "FileCheckpointStorage",
    "MemoryCheckpointStorage",
    "OperatorState",
    "RecoveredCheckpoint",
    "StateHandle",
    "read_latest",
    "recovered_store",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateHandle:
    """What one task wrote for one checkpoint; it is discarded once, or a kept checkpoint refers to it."""

    checkpoint_id: int
    task: ExecutionAttemptID
    snapshot: TaskStateSnapshot = field(compare=False)

    def discard(self) -> None:
        self.snapshot.discard_state()


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorState:
    """The state of all subtasks of one operator."""

    operator_id: str
    parallelism: int
    max_parallelism: int
    subtask_states: Mapping[int, OperatorSubtaskState] = field(default_factory=dict)
    """Of the subtasks that had state."""
    is_fully_finished: bool = False
    """Whether all subtasks have finished, and none will run after a restore (C19)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedCheckpoint:
    """A completed checkpoint: the state of every operator at one consistent cut through the job.

    Answers to Flink's `CompletedCheckpoint`, `OperatorState` and `FullyFinishedOperatorState`. Invariant: plain values
    that contain all that a restore at any parallelism needs.
    """

    job_id: str
    checkpoint_id: int
    timestamp_ms: int
    """When it was triggered."""
    completion_timestamp_ms: int
    properties: CheckpointProperties
    operator_states: Mapping[str, OperatorState]
    handles: tuple[StateHandle, ...] = ()
    """What it refers to, discarded together with it; empty if it was read from a file, which contains everything."""


Executor = Callable[[Callable[[], None]], None]
"""Runs an action, now or later."""

RECENT_CHECKPOINTS = 1_000
"""This many checkpoints are remembered; state that arrives for an older one is discarded at once."""


class CheckpointsCleaner:
    """Discards state to which no checkpoint refers, exactly once. Mutable.

    Answers to Flink's `CheckpointsCleaner` and to its coordinator's accounting of recent checkpoints. Invariant: what
    tasks wrote belongs to a pending or completed checkpoint, or is discarded, once (C34).

    Difference from Flink: there, messages are not repeated, so a late acknowledgement's state is always discarded.
    Here the message may repeat one whose state a completed checkpoint refers to; that state is kept.
    """

    def __init__(
        self, *, executor: Executor, discard: Callable[[StateHandle], None] = StateHandle.discard
    ) -> None:
        self._discard = discard
        self._executor = executor
        self._accounted: dict[int, set[ExecutionAttemptID]] = {}
        self._cleaning = 0
        self.on_cleaned: Callable[[], None] = lambda: None
        """Called after each cleaning, for which a request may be waiting (C32)."""

    @property
    def number_of_checkpoints_to_clean(self) -> int:
        """Checkpoints whose cleaning has begun and not ended."""
        return self._cleaning

    def account_for(self, checkpoint_id: int, task: ExecutionAttemptID) -> bool:
        """Record that a task's state has arrived; return False if it had arrived before."""
        tasks = self._accounted.setdefault(checkpoint_id, set())
        if len(self._accounted) > RECENT_CHECKPOINTS:
            del self._accounted[min(self._accounted)]
        is_first = task not in tasks
        tasks.add(task)
        return is_first

    def clean_late(self, handle: StateHandle) -> None:
        """Discard late state, unless it is a copy of state that has arrived before."""
        if self.account_for(handle.checkpoint_id, handle.task):
            self._discard(handle)

    def clean_checkpoint(
        self, handles: Iterable[StateHandle], *, drop_metadata: Callable[[], None] = lambda: None
    ) -> None:
        """Discard the metadata, then the state of an ended checkpoint, through the executor."""
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


class CheckpointMetadataStorage(Protocol):
    """Stores completed checkpoints beyond the life of the coordinator."""

    def write(self, checkpoint: CompletedCheckpoint) -> None:
        """Write durably; if it raises, nothing is left behind."""

    def read(self, checkpoint_id: int) -> CompletedCheckpoint:
        """The checkpoint as written; raises an error that names what cannot be read."""

    def discard(self, checkpoint_id: int) -> None: ...

    def checkpoint_ids(self) -> list[int]:
        """All stored ids, ascending."""


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
    """The completed checkpoints of a job: the latest `max_retained`, and those that must be kept. Mutable.

    Iterates in ascending order. `checkpoints` were left by an earlier run (`recovered_store`) and are durable.

    Answers to Flink's `DefaultCompletedCheckpointStore` and `CheckpointSubsumeHelper`. Invariant: its checkpoints are
    durable, and ordered by id whatever the order of completion (C37).
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
        """The checkpoint with the highest id, savepoint or not (C37)."""
        return self._checkpoints[-1] if self._checkpoints else None

    @property
    def latest_checkpoint_id(self) -> int:
        """0 if there is none."""
        return self._checkpoints[-1].checkpoint_id if self._checkpoints else 0

    def add_checkpoint_and_subsume_oldest(self, checkpoint: CompletedCheckpoint) -> list[CompletedCheckpoint]:
        """Store a checkpoint durably; return those that are dropped for it, ascending, for the caller to clean."""
        if any(kept.checkpoint_id == checkpoint.checkpoint_id for kept in self._checkpoints):
            raise WrongState(f"checkpoint {checkpoint.checkpoint_id} is in the store already")
        self.storage.write(checkpoint)
        insort(self._checkpoints, checkpoint, key=lambda kept: kept.checkpoint_id)
        return self._subsume()

    def remove(self, checkpoint_id: int) -> None:
        """Drop a checkpoint from the store, but not its files."""
        self._checkpoints = [kept for kept in self._checkpoints if kept.checkpoint_id != checkpoint_id]

    def _subsume(self) -> list[CompletedCheckpoint]:
        """Drop the oldest; never the latest, nor the latest that is no savepoint, since users may delete savepoints."""
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


class FileCheckpointStorage:
    """Completed checkpoints as files, which a later coordinator can read.

    Answers to Flink's `Checkpoints` (`storeCheckpointMetadata`, `loadCheckpointMetadata`). Invariant: what is read is
    what was written, or an error that names the file and, where it can, the operator and its state
    (`checkpoints.snapshot_file`).
    """

    def __init__(self, files: CheckpointStorage) -> None:
        self._files = files

    def write(self, checkpoint: CompletedCheckpoint) -> None:
        """Each operator of each subtask is a section of the file, so that an error can name it."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredCheckpoint:
    """The checkpoint from which a job restarts; None if there is none."""

    checkpoint: CompletedCheckpoint | None = None
    passed_over: tuple[SnapshotUnreadable, ...] = ()
    """Newer checkpoints that could not be read, newest first."""

    @property
    def checkpoint_id(self) -> int | None:
        """The id of the restored checkpoint, or None."""
        return None if self.checkpoint is None else self.checkpoint.checkpoint_id

    def __str__(self) -> str:
        if self.checkpoint is None:
            return "there is no checkpoint; the job begins anew"
        why = "; ".join(map(str, self.passed_over))
        return f"restored from checkpoint {self.checkpoint_id}" + (
            f", which is not the latest: {why}" if why else ""
        )


def read_latest(store: CompletedCheckpointStore, policy: RestorePolicy) -> RecoveredCheckpoint:
    """Read the newest checkpoint. Raises SnapshotUnreadable if it cannot be read and `policy` allows no older one.

    Checkpoints that are skipped leave the store; their files stay.
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
    """The store of a coordinator that continues another's work, and what could not be read; raises as `read_latest`."""
    passed_over: list[SnapshotUnreadable] = []
    checkpoints: list[CompletedCheckpoint] = []
    for checkpoint_id in reversed(storage.checkpoint_ids()):
        try:
            checkpoints.append(storage.read(checkpoint_id))
        except SnapshotUnreadable as unreadable:
            if not checkpoints:  # otherwise it is older than a readable one, and not needed
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
    """A new start instead of a restore would publish all output again."""
    if passed_over:
        latest, *others = passed_over
        for other in others:
            latest.add_note(f"neither can an earlier one be read: {other}")
        raise latest
