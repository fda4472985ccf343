"""Trouble with the store, as an attempt makes it for itself: to its writes for a while, or to its newest files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from harness.database.checkpoint_store import CheckpointStore, CheckpointUnreadable, StoreLost
from harness.database.store_files import FolderFiles
from harness.faults.real.sites import AttemptSite
from harness.faults.tests.entries import made
from harness.sut.inside_faults import StoreTrouble
from harness.sut.tests.handles import Notes


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return CheckpointStore(FolderFiles(tmp_path), subtask=0, seed=1)


def act(kind: str, store: CheckpointStore, notes: Notes, **fields: Any) -> None:
    nothing = cast("Any", None)
    site = AttemptSite(journal=notes, loop=nothing, clock=nothing, store=StoreTrouble(store))
    made(kind, **fields).act_in_attempt(site)


def written(store: CheckpointStore, *checkpoints: int) -> list[str]:
    return [store.write(checkpoint, attempt=1, position=0, elements=[]) for checkpoint in checkpoints]


def test_a_slow_store_holds_each_write_and_says_how_long(store: CheckpointStore, notes: Notes) -> None:
    act("store_slow", store, notes, delay="20ms", **{"for": "1m"})

    written(store, 1, 2)

    held = [facts["took_ms"] for _, what, facts in notes.measures if what == "write delayed"]
    assert len(held) == 2
    assert min(held) >= 20


def test_a_failing_store_refuses_until_its_while_is_over(store: CheckpointStore, notes: Notes) -> None:
    act("store_failing", store, notes, **{"for": "60ms"})

    (name,) = written(store, 1)

    refused = [facts for _, what, facts in notes.measures if what == "write refused"]
    assert {facts["errno"] for facts in refused} == {"ENOSPC"}
    assert store.read(name).epoch == 1


def test_a_store_that_fails_for_too_long_is_given_up(
    store: CheckpointStore, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.database.checkpoint_store._RETRY_S", 0.0)
    act("store_failing", store, notes, how="read-only", **{"for": "1m"})

    with pytest.raises(StoreLost, match="Read-only file system"):
        written(store, 1)


def test_the_newest_file_is_torn_and_no_other(store: CheckpointStore, notes: Notes) -> None:
    older, newest = written(store, 1, 2)

    act("store_torn", store, notes, subtask=0)

    assert store.read(older).epoch == 1
    with pytest.raises(CheckpointUnreadable):
        store.read(newest)
    ((_, _, said),) = notes.acts
    assert (said["file"], said["bytes"]) == (newest, said["of"] // 2)


def test_the_newest_files_are_gone_as_many_as_asked(store: CheckpointStore, notes: Notes) -> None:
    names = written(store, 1, 2, 3)

    act("store_newest_missing", store, notes, subtask=0, times=2)

    assert store.files.names() == names[:1]
    assert [facts["file"] for _, _, facts in notes.acts] == names[1:]


def test_where_nothing_is_stored_nothing_is_said(store: CheckpointStore, notes: Notes) -> None:
    act("store_torn", store, notes, subtask=0)
    act("store_newest_missing", store, notes, subtask=0)

    assert notes.acts == []
