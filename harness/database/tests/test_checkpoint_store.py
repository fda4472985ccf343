"""The checkpoint store: what can be read is what was written, and what cannot is said."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from harness.database.checkpoint_store import CheckpointStore, CheckpointUnreadable, StoreLost
from harness.database.epoch import CheckpointPart, SavedEpoch
from harness.database.store_files import Files, FolderFiles, MemoryFiles

ELEMENTS: list[dict[str, Any]] = [{"w": 5, "pos": 8}, {"lookup": {"id": 3}, "ts": None, "pos": 9}]


@pytest.fixture(params=["folder", "memory"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    return FolderFiles(tmp_path / "checkpoints") if request.param == "folder" else MemoryFiles()


@pytest.fixture
def store(files: Files) -> CheckpointStore:
    return CheckpointStore(files, subtask=2, seed=1)


def written(store: CheckpointStore, *checkpoints: int) -> list[CheckpointPart]:
    """Their parts, the newest first."""
    parts = [
        CheckpointPart(
            epoch=checkpoint,
            token=1,
            file=store.write(checkpoint, attempt=1, position=10 * checkpoint, elements=ELEMENTS),
        )
        for checkpoint in checkpoints
    ]
    return parts[::-1]


def damage(store: CheckpointStore, checkpoint: int, keep: int) -> None:
    store.files.cut(store.files.names()[checkpoint - 1], keep)


def test_a_part_is_read_as_it_was_written(store: CheckpointStore) -> None:
    (part,) = written(store, 7)

    assert store.read(part.file) == SavedEpoch(epoch=7, position=70, elements=ELEMENTS)


def test_a_file_cut_anywhere_is_torn(store: CheckpointStore) -> None:
    (part,) = written(store, 1)
    name = store.files.names()[0]
    whole = store.files.read(name)

    for keep in range(len(whole)):
        store.files.write(name, whole[:keep])
        with pytest.raises(CheckpointUnreadable) as unreadable:
            store.read(part.file)
        assert unreadable.value.what == "torn"


def test_a_flipped_byte_is_torn(store: CheckpointStore) -> None:
    (part,) = written(store, 1)
    name = store.files.names()[0]
    whole = bytearray(store.files.read(name))
    whole[-3] ^= 1
    store.files.write(name, bytes(whole))

    with pytest.raises(CheckpointUnreadable, match="is damaged"):
        store.read(part.file)


def test_a_write_that_dies_half_way_leaves_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = CheckpointStore(FolderFiles(tmp_path), subtask=2, seed=1)
    monkeypatch.setattr("harness.database.checkpoint_store._RETRY_S", 0.0)
    monkeypatch.setattr("harness.database.store_files.os.fsync", _no_space)

    with pytest.raises(StoreLost, match="checkpoint 3 of subtask 2 could not be stored"):
        store.write(3, attempt=1, position=1, elements=[])

    assert store.files.names() == []


def _no_space(_descriptor: int) -> None:
    raise OSError(errno.ENOSPC, "no space")


def test_a_write_that_fails_for_a_while_is_made_again(store: CheckpointStore) -> None:
    failures = [OSError(errno.ENOSPC, "full"), OSError(errno.EIO, "broken")]

    def trouble() -> None:
        if failures:
            raise failures.pop()

    store.trouble = trouble

    (part,) = written(store, 1)

    assert (failures, store.read(part.file).epoch) == ([], 1)


def test_the_newest_part_is_restored(store: CheckpointStore) -> None:
    restored = store.restore(written(store, 1, 2, 3), committed=0)

    assert restored.saved is not None
    assert (restored.saved.epoch, restored.passed_over) == (3, ())


def test_nothing_completed_is_nothing_to_restore(store: CheckpointStore) -> None:
    restored = store.restore([], committed=0)

    assert (restored.saved, restored.passed_over) == (None, ())


def test_torn_and_missing_parts_are_passed_over_and_said(store: CheckpointStore) -> None:
    parts = written(store, 1, 2, 3)
    damage(store, 2, keep=40)
    store.files.remove(store.files.names()[-1])

    restored = store.restore(parts, committed=0)

    assert restored.saved is not None
    assert restored.saved.epoch == 1
    assert [(one.epoch, one.what) for one in restored.passed_over] == [(3, "missing"), (2, "torn")]


def test_what_is_older_than_what_is_committed_is_never_restored(store: CheckpointStore) -> None:
    parts = written(store, 1, 2)
    damage(store, 2, keep=40)

    with pytest.raises(
        StoreLost, match=r"checkpoint 2: its file .* is damaged.* older than the committed epoch 2"
    ):
        store.restore(parts, committed=2)


def test_a_store_without_a_readable_part_is_an_error_and_no_fresh_start(store: CheckpointStore) -> None:
    parts = written(store, 1)
    damage(store, 1, keep=0)

    with pytest.raises(StoreLost, match="no checkpoint of subtask 2 can be restored"):
        store.restore(parts, committed=0)


def test_what_nobody_will_restore_any_more_is_removed(store: CheckpointStore) -> None:
    written(store, 1, 2, 3, 4)

    store.forget_below(3)

    assert store.files.names() == [
        "checkpoint-000003-attempt-0001",
        "checkpoint-000004-attempt-0001",
    ]
