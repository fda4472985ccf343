"""A folder that holds a report already: nothing of it is lost, and it is said where it went."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reports.tests.sample import pass_outcome
from reports.write import set_aside, write_report


def written(folder: Path, name: str, said: list[str]) -> Path:
    """A report of one run, whose histories lie where the engine puts them."""
    home = folder / "runs" / name
    home.mkdir(parents=True)
    return write_report([pass_outcome(home, run_id=name)], folder, title=name, tell=said.append)


@pytest.mark.sweep
def test_a_second_report_keeps_the_first_with_its_history_and_says_where(tmp_path: Path) -> None:
    said: list[str] = []
    written(tmp_path, "one", said)

    written(tmp_path, "two", said)

    earlier = tmp_path / "earlier" / "one"
    document = json.loads((earlier / "run.json").read_bytes())
    assert said == [f"floodmark: the report that was in {tmp_path} before is in {earlier}"]
    assert (earlier / document["runs"][0]["history"]["file"]).is_file()
    assert json.loads((tmp_path / "run.json").read_bytes())["earlier"] == "earlier/one"
    assert 'href="earlier/one/index.html"' in (tmp_path / "index.html").read_text("utf-8")
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["two"]


def test_of_three_reports_all_are_there(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        written(tmp_path, name, [])

    assert sorted(path.name for path in (tmp_path / "earlier").iterdir()) == ["one", "two"]


def test_two_reports_of_one_id_have_a_folder_each(tmp_path: Path) -> None:
    outcome = pass_outcome(tmp_path)

    for _ in range(3):
        write_report([outcome], tmp_path / "out", title="again", tell=len)

    assert len(list((tmp_path / "out" / "earlier").iterdir())) == 2
    assert len(list((tmp_path / "out").rglob("history/*.jsonl"))) == 3


@pytest.mark.parametrize(
    "rubbish", ["{", "[]", '{"runs": [{"run_id": "../../x", "history": {"file": "../../etc"}}]}']
)
def test_files_of_somebody_else_are_kept_too(tmp_path: Path, rubbish: str) -> None:
    (tmp_path / "index.html").write_text("mine")
    (tmp_path / "run.json").write_text(rubbish)
    (tmp_path / "notes.txt").write_text("stay")

    written(tmp_path, "one", [])

    assert [path.read_text() for path in tmp_path.glob("earlier/*/index.html")] == ["mine"]
    assert (tmp_path / "notes.txt").exists()


def test_if_the_new_report_cannot_be_written_the_old_one_is_back(tmp_path: Path) -> None:
    written(tmp_path, "one", [])
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    with pytest.raises(KeyboardInterrupt), set_aside(tmp_path):
        raise KeyboardInterrupt

    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert not (tmp_path / "earlier").exists()
