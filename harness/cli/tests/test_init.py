"""`floodmark init` writes a whole beginning and changes nothing that exists; `floodmark schema` gives the schema."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from harness.cli.init import FILES, JOB_FILES, MARKED, MARKED_COMMIT
from harness.cli.main import main
from harness.levels.job.job_file import read_job
from harness.scenario.file import load
from harness.system.errors import Exit


def test_it_makes_each_file_and_the_scenario_is_valid_u5(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["init", str(tmp_path / "project")])

    assert code == Exit.HOLD
    assert all((tmp_path / "project" / name).read_text() == text for name, text in FILES.items())
    assert load(tmp_path / "project" / "scenarios" / "slow-then-cut.yaml").faults
    assert f"cd {tmp_path / 'project'} && pytest" in capsys.readouterr().out


def test_the_marked_line_stands_once_in_the_lookup_u5() -> None:
    assert FILES["enrich.py"].count(MARKED) == 1


def test_the_beginning_of_a_job_is_made_and_its_job_file_is_valid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["init", "--job", str(tmp_path / "mine")])

    assert code == Exit.HOLD
    assert all((tmp_path / "mine" / name).read_text() == text for name, text in JOB_FILES.items())
    assert read_job(tmp_path / "mine" / "job.toml").sink.schema_file == "sink.sql"
    assert "floodmark job" in capsys.readouterr().out


def test_each_key_that_the_job_file_shows_in_a_comment_is_one_that_exists(tmp_path: Path) -> None:
    uncommented = re.sub(r"(?m)^# (?=[a-z_]+ = )", "", JOB_FILES["job.toml"])
    (tmp_path / "job.toml").write_text(uncommented)

    job = read_job(tmp_path / "job.toml")

    assert (job.job.starts, job.source.partitions, job.sink.j, job.claims.fenced) == (6, 1, "part", True)


def test_the_marked_line_stands_once_in_the_job() -> None:
    assert JOB_FILES["job.py"].count(MARKED_COMMIT) == 1


def test_a_file_that_exists_is_named_and_nothing_is_written_u5(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "enrich.py").write_text("mine")

    code = main(["init", str(tmp_path)])

    assert code == Exit.USAGE
    assert "enrich.py exists" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["enrich.py"]
    assert (tmp_path / "enrich.py").read_text() == "mine"


def test_a_project_file_that_exists_stays_and_the_lines_to_add_are_shown_u5(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\n")

    code = main(["init", str(tmp_path)])

    assert code == Exit.HOLD
    assert (tmp_path / "pyproject.toml").read_text() == "[project]\n"
    assert FILES["pyproject.toml"] in capsys.readouterr().out


def test_the_schema_is_printed_or_its_place_u5(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == Exit.HOLD
    printed = capsys.readouterr().out
    assert main(["schema", "--path"]) == Exit.HOLD
    place = Path(capsys.readouterr().out.strip())

    assert json.loads(printed)["title"] == "Floodmark scenario, version 1"
    assert place.read_text("utf-8") == printed


def test_the_schema_of_job_files_is_printed_or_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "--job"]) == Exit.HOLD
    printed = capsys.readouterr().out
    assert main(["schema", "--job", "--path"]) == Exit.HOLD
    place = Path(capsys.readouterr().out.strip())

    assert json.loads(printed)["title"] == "Floodmark job file, version 1"
    assert place.read_text("utf-8") == printed
