"""Claims about a job's completed checkpoints: the newest is restored, and going back is said and never hidden."""

from __future__ import annotations

from pathlib import Path

import pytest

from reference_impl.checkpoints.snapshot_file import CompletedSnapshot, SnapshotDefect, SnapshotUnreadable
from reference_impl.checkpoints.storage import CheckpointStorage, RestorePolicy, refuse_unknown_operators
from reference_impl.checkpoints.task_state import OperatorSubtaskState, TaskStateSnapshot
from reference_impl.checkpoints.tests.drawn_snapshots import operator_handle

PREVIOUS = RestorePolicy.PREVIOUS_IF_UNREADABLE


def completed(checkpoint_id: int) -> CompletedSnapshot:
    """A checkpoint of a task with one operator."""
    state = OperatorSubtaskState(managed_operator_state=operator_handle([checkpoint_id]))
    snapshot = TaskStateSnapshot(operator_states={"lookup": state})
    return CompletedSnapshot(job_id="job", checkpoint_id=checkpoint_id, tasks={"map": snapshot})


def storage_with(folder: Path, *checkpoint_ids: int, torn: tuple[int, ...] = ()) -> CheckpointStorage:
    """A storage with those checkpoints, some of them torn."""
    storage = CheckpointStorage(folder, job_id="job")
    for checkpoint_id in checkpoint_ids:
        path = storage.write(completed(checkpoint_id))
        if checkpoint_id in torn:
            path.write_bytes(path.read_bytes()[:-3])
    return storage


def test_the_highest_is_restored_whatever_the_order_of_writing_c37(tmp_path: Path) -> None:
    choice = storage_with(tmp_path, 9, 10, 8).restore()

    assert choice.snapshot == completed(10)
    assert str(choice) == "restored from checkpoint 10"


def test_a_write_that_did_not_end_is_no_checkpoint_c37(tmp_path: Path) -> None:
    storage = storage_with(tmp_path, 1)
    (tmp_path / "checkpoint-000002.snapshot.unfinished").write_bytes(b"half")
    (tmp_path / "checkpoint-copy.snapshot").write_bytes(b"somebody's")

    assert storage.checkpoint_ids == [1]


def test_without_any_checkpoint_the_job_begins_anew(tmp_path: Path) -> None:
    choice = CheckpointStorage(tmp_path / "none", job_id="job").restore()

    assert choice.snapshot is None
    assert "begins anew" in str(choice)


def test_by_default_an_unreadable_newest_one_fails_the_restore(tmp_path: Path) -> None:
    storage = storage_with(tmp_path, 1, 2, torn=(2,))

    with pytest.raises(SnapshotUnreadable) as raised:
        storage.restore()

    assert raised.value.defect is SnapshotDefect.TORN
    assert raised.value.path == storage.path_of(2)


def test_the_previous_one_is_used_where_the_policy_says_so_and_the_result_says_it(tmp_path: Path) -> None:
    choice = storage_with(tmp_path, 1, 2, 3, torn=(2, 3)).restore(PREVIOUS)

    assert choice.snapshot == completed(1)
    assert [unreadable.path.name for unreadable in choice.passed_over] == [
        "checkpoint-000003.snapshot",
        "checkpoint-000002.snapshot",
    ]
    assert str(choice).startswith("restored from checkpoint 1, which is not the newest: ")
    assert "operator 'lookup'" in str(choice)


def test_if_none_can_be_read_the_restore_fails_and_names_them_all(tmp_path: Path) -> None:
    storage = storage_with(tmp_path, 1, 2, torn=(1, 2))

    with pytest.raises(SnapshotUnreadable) as raised:
        storage.restore(PREVIOUS)

    assert raised.value.path == storage.path_of(2)
    assert str(storage.path_of(1)) in raised.value.__notes__[0]


def test_another_jobs_checkpoint_is_not_gone_back_from_in_silence(tmp_path: Path) -> None:
    storage_with(tmp_path, 1)

    with pytest.raises(SnapshotUnreadable) as raised:
        CheckpointStorage(tmp_path, job_id="another").restore()

    assert raised.value.defect is SnapshotDefect.OTHER_JOB


def test_a_renamed_checkpoint_is_refused(tmp_path: Path) -> None:
    storage = storage_with(tmp_path, 1)
    storage.path_of(1).rename(storage.path_of(7))

    with pytest.raises(SnapshotUnreadable, match="holds checkpoint 1"):
        storage.restore()


def test_another_jobs_checkpoint_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a storage of its own"):
        CheckpointStorage(tmp_path, job_id="another").write(completed(1))


def test_a_discarded_checkpoint_is_gone_and_may_be_discarded_again_c35(tmp_path: Path) -> None:
    storage = storage_with(tmp_path, 1, 2)

    storage.discard(1)
    storage.discard(1)

    assert storage.checkpoint_ids == [2]


def test_state_of_an_operator_that_the_job_no_longer_has_is_refused_naming_it(tmp_path: Path) -> None:
    with pytest.raises(SnapshotUnreadable) as raised:
        refuse_unknown_operators(completed(1), known=["count"], path=tmp_path)

    assert raised.value.defect is SnapshotDefect.UNKNOWN_STATE
    assert (raised.value.operator_id, raised.value.state) == ("lookup", "managed_operator_state")


def test_an_operator_that_had_no_state_may_go_c10(tmp_path: Path) -> None:
    stateless = TaskStateSnapshot(operator_states={"gone": OperatorSubtaskState()})
    snapshot = CompletedSnapshot(job_id="job", checkpoint_id=1, tasks={"map": stateless, "sink": None})

    refuse_unknown_operators(snapshot, known=[], path=tmp_path)

    assert not stateless.has_state
