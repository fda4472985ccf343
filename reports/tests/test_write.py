"""The folder is written whole, beside its histories, and a disk that refuses is named with its fix."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from harness.system.errors import WorldError
from reports.tests.sample import hostile_outcome, pass_outcome
from reports.write import write_report


def test_a_report_is_five_things(tmp_path: Path) -> None:
    page = write_report([pass_outcome(tmp_path)], tmp_path / "out", title="one")

    assert page == tmp_path / "out" / "index.html"
    assert sorted(path.name for path in page.parent.iterdir()) == [
        "history",
        "index.html",
        "junit.xml",
        "run.json",
        "summary.md",
    ]


def test_the_history_is_copied_and_fingerprinted(tmp_path: Path) -> None:
    outcome = pass_outcome(tmp_path)

    write_report([outcome], tmp_path / "out", title="one")

    (run,) = json.loads((tmp_path / "out" / "run.json").read_text())["runs"]
    copy = (tmp_path / "out" / run["history"]["file"]).read_bytes()
    assert copy == outcome.history.read_bytes()
    assert run["history"]["sha256"] == hashlib.sha256(copy).hexdigest()


def test_a_history_that_is_in_the_folder_already_stays_where_it_is(tmp_path: Path) -> None:
    outcome = pass_outcome(tmp_path)

    write_report([outcome], tmp_path, title="one")

    assert not (tmp_path / "history").exists()
    assert json.loads((tmp_path / "run.json").read_text())["runs"][0]["history"]["file"] == "pass.jsonl"


def test_two_runs_of_one_id_keep_a_history_each(tmp_path: Path) -> None:
    outcome = pass_outcome(tmp_path)

    write_report([outcome, outcome], tmp_path / "out", title="two")

    assert len(list((tmp_path / "out" / "history").iterdir())) == 2


def test_a_hostile_run_id_stays_inside_the_folder(tmp_path: Path) -> None:
    outcome = replace(hostile_outcome(tmp_path), run_id="../../escape")

    write_report([outcome], tmp_path / "out", title="hostile")

    assert [path.name for path in (tmp_path / "out" / "history").iterdir()] == ["escape.jsonl"]


def test_a_report_can_be_written_over_an_older_one(tmp_path: Path) -> None:
    outcome = pass_outcome(tmp_path)

    write_report([outcome], tmp_path / "out", title="older")
    write_report([outcome], tmp_path / "out", title="newer")

    assert "newer" in (tmp_path / "out" / "index.html").read_text()


def test_a_named_secret_is_in_no_file(tmp_path: Path) -> None:
    secret = "s3cr&t<\"w'rd"
    outcome = pass_outcome(tmp_path, error=f"access denied with {secret}", extras={"note": secret})

    page = write_report([outcome], tmp_path / "out", title=secret, secrets=[secret])

    for path in page.parent.glob("*.*"):
        text = path.read_text()
        assert "s3cr" not in text
        assert "[withheld]" in text


def test_a_folder_that_cannot_be_made_is_a_world_error_with_a_fix(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(WorldError, match=r"(?s)could not be written.*file.*--report DIR"):
        write_report([], tmp_path / "file" / "out", title="none")


def test_a_full_disk_leaves_the_older_report_whole_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = pass_outcome(tmp_path)
    write_report([outcome], tmp_path / "out", title="older")
    before = sorted(path.name for path in (tmp_path / "out").rglob("*"))

    def full(_handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(WorldError, match="No space left on device"):
        write_report([outcome], tmp_path / "out", title="newer")
    assert "older" in (tmp_path / "out" / "index.html").read_text()
    assert sorted(path.name for path in (tmp_path / "out").rglob("*")) == before
