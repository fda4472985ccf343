"""Claims about what a coordinator finds again, in memory or in files (C35, C37), and what an unreadable file does."""

from __future__ import annotations

from pathlib import Path

import pytest

from reference_impl.checkpoint_events import SnapshotType
from reference_impl.checkpoints.snapshot_file import CompletedSnapshot, SnapshotDefect, SnapshotUnreadable
from reference_impl.checkpoints.storage import CheckpointStorage, RestorePolicy
from reference_impl.checkpoints.task_state import OperatorSubtaskState
from reference_impl.errors import WrongState
from reference_impl.job.completed_checkpoints import (
    CompletedCheckpoint,
    CompletedCheckpointStore,
    FileCheckpointStorage,
    MemoryCheckpointStorage,
    OperatorState,
    read_latest,
    recovered_store,
)
from reference_impl.job.messages import CheckpointProperties


def checkpoint(checkpoint_id: int, *, is_savepoint: bool = False) -> CompletedCheckpoint:
    kind = SnapshotType.SAVEPOINT if is_savepoint else SnapshotType.CHECKPOINT
    return CompletedCheckpoint(
        job_id="job",
        checkpoint_id=checkpoint_id,
        timestamp_ms=1,
        completion_timestamp_ms=2,
        properties=CheckpointProperties(snapshot_type=kind, is_forced=is_savepoint),
        operator_states={
            "op/x": OperatorState(
                operator_id="op/x",
                parallelism=3,
                max_parallelism=16,
                subtask_states={2: OperatorSubtaskState(raw_operator_state=(b"one", b"two"))},
            ),
            "end": OperatorState(
                operator_id="end", parallelism=1, max_parallelism=128, is_fully_finished=True
            ),
        },
    )


def files(folder: Path, *, job_id: str = "job") -> CheckpointStorage:
    return CheckpointStorage(folder, job_id=job_id)


def two_in(folder: Path) -> FileCheckpointStorage:
    storage = FileCheckpointStorage(files(folder))
    storage.write(checkpoint(1))
    storage.write(checkpoint(2))
    return storage


def tear(folder: Path, checkpoint_id: int) -> Path:
    path = files(folder).path_of(checkpoint_id)
    path.write_bytes(path.read_bytes()[:-2])
    return path


@pytest.mark.parametrize("is_savepoint", [False, True])
def test_a_checkpoint_comes_back_from_its_file_as_it_was(
    tmp_path: Path,
    is_savepoint: bool,  # noqa: FBT001
) -> None:
    storage = FileCheckpointStorage(files(tmp_path))
    written = checkpoint(5, is_savepoint=is_savepoint)

    storage.write(written)

    assert storage.read(5) == written


def test_a_coordinator_that_comes_after_another_finds_the_highest_c37(tmp_path: Path) -> None:
    two_in(tmp_path)

    store, passed_over = recovered_store(
        FileCheckpointStorage(files(tmp_path)), RestorePolicy.NEWEST_ONLY, max_retained=2
    )

    assert store.latest_checkpoint_id == 2
    assert passed_over == ()


def test_a_torn_file_fails_the_restore_and_is_named_with_its_operator_and_state(tmp_path: Path) -> None:
    storage = two_in(tmp_path)
    path = tear(tmp_path, 2)

    with pytest.raises(SnapshotUnreadable) as torn:
        recovered_store(storage, RestorePolicy.NEWEST_ONLY)

    assert torn.value.defect is SnapshotDefect.TORN
    assert torn.value.path == path
    assert (torn.value.operator_id, torn.value.state) == ("op/x", "raw_operator_state")


def test_the_one_before_is_taken_where_the_policy_says_so_and_the_result_says_it(tmp_path: Path) -> None:
    storage = two_in(tmp_path)
    store, _ = recovered_store(storage, RestorePolicy.NEWEST_ONLY, max_retained=2)
    path = tear(tmp_path, 2)

    recovered = read_latest(store, RestorePolicy.PREVIOUS_IF_UNREADABLE)

    assert recovered.checkpoint == checkpoint(1)
    assert [error.path for error in recovered.passed_over] == [path]
    assert "not the latest" in str(recovered)
    assert store.latest_checkpoint_id == 1
    assert path.exists()


def test_a_new_coordinator_may_take_the_one_before_too(tmp_path: Path) -> None:
    storage = two_in(tmp_path)
    tear(tmp_path, 2)

    store, passed_over = recovered_store(storage, RestorePolicy.PREVIOUS_IF_UNREADABLE)

    assert store.latest_checkpoint_id == 1
    assert len(passed_over) == 1


def test_to_begin_anew_is_no_way_out_when_nothing_can_be_read(tmp_path: Path) -> None:
    storage = two_in(tmp_path)
    tear(tmp_path, 1)
    path = tear(tmp_path, 2)

    with pytest.raises(SnapshotUnreadable) as refused:
        recovered_store(storage, RestorePolicy.PREVIOUS_IF_UNREADABLE)

    assert refused.value.path == path
    assert "neither" in refused.value.__notes__[0]


def test_an_old_file_that_cannot_be_read_is_in_nobodys_way(tmp_path: Path) -> None:
    storage = two_in(tmp_path)
    tear(tmp_path, 1)

    store, passed_over = recovered_store(storage, RestorePolicy.NEWEST_ONLY)

    assert store.latest_checkpoint_id == 2
    assert passed_over == ()


def test_another_jobs_checkpoint_is_refused_by_name(tmp_path: Path) -> None:
    two_in(tmp_path)

    with pytest.raises(SnapshotUnreadable, match="'job'.*'other'") as refused:
        FileCheckpointStorage(files(tmp_path, job_id="other")).read(2)

    assert refused.value.defect is SnapshotDefect.OTHER_JOB


def test_a_snapshot_that_no_coordinator_wrote_is_refused(tmp_path: Path) -> None:
    storage = FileCheckpointStorage(files(tmp_path))
    files(tmp_path).write(CompletedSnapshot(job_id="job", checkpoint_id=1, tasks={}))

    with pytest.raises(SnapshotUnreadable, match="not a coordinator's"):
        storage.read(1)


def test_the_store_keeps_so_many_and_gives_back_what_it_no_longer_keeps_c35() -> None:
    store = CompletedCheckpointStore(storage=MemoryCheckpointStorage(), max_retained=2)

    subsumed = [
        [gone.checkpoint_id for gone in store.add_checkpoint_and_subsume_oldest(checkpoint(number))]
        for number in (1, 3, 2, 4)
    ]

    assert subsumed == [[], [], [1], [2]]
    assert [kept.checkpoint_id for kept in store] == [3, 4]


def test_the_latest_that_is_no_savepoint_is_kept_besides() -> None:
    """A savepoint's owner may move or delete it."""
    store = CompletedCheckpointStore(storage=MemoryCheckpointStorage(), max_retained=1)
    store.add_checkpoint_and_subsume_oldest(checkpoint(1))

    store.add_checkpoint_and_subsume_oldest(checkpoint(2, is_savepoint=True))

    assert [kept.checkpoint_id for kept in store] == [1, 2]


def test_a_number_is_stored_once() -> None:
    store = CompletedCheckpointStore(storage=MemoryCheckpointStorage())
    store.add_checkpoint_and_subsume_oldest(checkpoint(1))

    with pytest.raises(WrongState, match="checkpoint 1 is in the store already"):
        store.add_checkpoint_and_subsume_oldest(checkpoint(1))
