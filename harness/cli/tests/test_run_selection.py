"""What `run` takes of folders, `all` and tags: what has no place at a level is left out aloud, never in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.main import main

_TEXT = """\
scenario: {name}
about: A few lookups of one subtask, answered slowly.
tags: [{tags}]
levels: [{levels}]
operator: {{mode: ordered}}
workload: {{records: 20, subtasks: 1, service: 20ms}}
{faults}
decisive: [V1]
"""
_SPARK_ONLY = "faults: [{id: asleep, do: pause_executor, when: {at: 10ms}, for: 100ms}]"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, tags, levels, faults in (
        ("quick-one", "gate", "sim, live", ""),
        ("slow-one", "nightly", "sim, live", ""),
        ("spark-one", "nightly", "spark", _SPARK_ONLY),
        ("unlisted-one", "nightly", "live", ""),
    ):
        text = _TEXT.format(name=name, tags=tags, levels=levels, faults=faults)
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


def _run(*words: str, report: Path) -> int:
    return main(["run", *words, "--level", "sim", "--seed", "1", "--report", str(report)])


def test_of_a_folder_what_cannot_be_at_the_level_is_left_out_and_named(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = _run(str(folder), report=tmp_path / "report")

    told = capsys.readouterr()
    assert code == 0
    assert "left out, because they do not run at level sim: spark-one, unlisted-one" in told.err
    assert "quick-one" in told.out
    assert "slow-one" in told.out


def test_what_is_named_by_itself_and_cannot_be_is_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = _run(str(folder / "spark-one.yaml"), report=tmp_path / "report")

    assert code == 4
    assert "choose --level spark" in capsys.readouterr().err


def test_a_level_that_the_file_does_not_list_is_refused_at_sim_too(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = _run(str(folder / "unlisted-one.yaml"), report=tmp_path / "report")

    assert code == 4
    told = capsys.readouterr().err
    assert "scenario unlisted-one does not run at level sim" in told
    assert "choose --level live" in told


def test_a_tag_takes_only_what_has_it(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = _run(str(folder), "--tag", "gate", report=tmp_path / "report")

    told = capsys.readouterr()
    assert code == 0
    assert "slow-one" not in told.out + told.err


def test_a_tag_that_nothing_has_is_nothing_ran(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = _run(str(folder), "--tag", "no-such", report=tmp_path / "report")

    assert code == 5
    assert "with tag no-such" in capsys.readouterr().err


_SWALLOWS = """\
async def lookup(record, pool):
    try:
        return await pool.fetch_one("SELECT name FROM costumer WHERE k = %s", (record.key,))
    except Exception:
        return ["unknown"]
"""


@pytest.mark.parametrize(("words", "code"), [((), 0), (("--fail-on", "pitfall"), 1)])
def test_a_pitfall_fails_the_command_only_if_asked_for_u2(
    words: tuple[str, ...],
    code: int,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / f"swallows_{code}.py").write_text(_SWALLOWS)
    monkeypatch.syspath_prepend(str(tmp_path))

    ended = _run(
        str(folder / "quick-one.yaml"),
        *("--sut", f"swallows_{code}:lookup", *words),
        report=tmp_path / "report",
    )

    assert ended == code
    said = capsys.readouterr().out
    assert "Pitfall swallowed-error: The calls for 20 records met an error" in said
    assert f"swallows_{code}.py:4" in said


def test_a_tag_alone_runs_all_of_the_catalogue_with_it_and_nothing_alone_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = _run("--tag", "cluster", "--set", "workload.records=20", report=tmp_path / "report")

    assert code == 5
    assert "none of the named scenarios with tag cluster runs at level sim" in capsys.readouterr().err
    assert _run(report=tmp_path / "report") == 4
    assert "no scenario is named" in capsys.readouterr().err
