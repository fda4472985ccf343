"""Project settings: `[tool.floodmark]` of the nearest pyproject.toml, and nothing that would act in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.demo import demo
from harness.cli.run import run
from harness.system.errors import UsageError
from harness.system.project_settings import OPTIONS, project_settings


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's folder, which is also the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(project: Path, text: str) -> None:
    (project / "pyproject.toml").write_text(text)


def test_settings_are_every_commands_defaults_under_their_parameters_names(project: Path) -> None:
    write(
        project,
        '[tool.floodmark]\nseed = 7\nno-color = true\nformat = "json"\nset = ["workload.records=9"]\n',
    )

    found = project_settings(["run", "demo"])

    expected = {"seed": 7, "no_color": True, "form": "json", "settings": ["workload.records=9"]}
    assert found == {"run": expected, "demo": expected}


def test_a_folder_further_up_counts_and_the_nearest_file_wins(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, "[tool.floodmark]\nseed = 7\n")
    inner = project / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    assert project_settings(["run"]) == {"run": {"seed": 7}}

    write(project / "a", "[project]\n")

    assert project_settings(["run"]) == {"run": {}}


@pytest.mark.parametrize("text", ["", "[tool.other]\nx = 1\n", "[project]\nname = 'x'\n"])
def test_a_project_without_settings_has_none(project: Path, text: str) -> None:
    write(project, text)

    assert project_settings(["run"]) in ({}, {"run": {}})


def test_an_unknown_setting_is_an_error_with_its_file_and_the_nearest(project: Path) -> None:
    write(project, "[tool.floodmark]\nlevle = 'live'\n")

    with pytest.raises(UsageError) as refused:
        project_settings(["run"])

    assert "levle" in str(refused.value)
    assert str(project / "pyproject.toml") in str(refused.value)
    assert "'level'" in refused.value.fix


@pytest.mark.parametrize(
    "text", ["[tool.floodmark\n", "tool = 3\n", "[tool]\nfloodmark = 3\n", "[tool]\nfloodmark = [1]\n"]
)
def test_a_file_that_makes_no_sense_is_an_error_with_its_name(project: Path, text: str) -> None:
    write(project, text)

    with pytest.raises(UsageError, match=r"pyproject\.toml"):
        project_settings(["run"])


def test_bytes_that_are_no_text_are_an_error(project: Path) -> None:
    (project / "pyproject.toml").write_bytes(b"\xff\xfe")

    with pytest.raises(UsageError):
        project_settings(["run"])


def test_every_option_that_a_project_may_set_is_one_of_run_and_every_option_of_run_may_be_set() -> None:
    names = {
        name.removeprefix("--") for option in run.params for name in option.opts if name.startswith("--")
    }

    assert names == set(OPTIONS)


def test_every_option_of_demo_may_be_set() -> None:
    names = {
        name.removeprefix("--") for option in demo.params for name in option.opts if name.startswith("--")
    }

    assert names <= set(OPTIONS)


def test_files_of_ones_own_are_relative_to_the_file_that_names_them_u4(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, '[tool.floodmark]\nschema = "db/a.sql"\ndata = "db/b.csv"\nrecords = "/in/c.jsonl"\n')
    inner = project / "inner"
    inner.mkdir()
    monkeypatch.chdir(inner)

    assert project_settings(["run"])["run"] == {
        "own_schema": str(project / "db" / "a.sql"),
        "own_data": [str(project / "db" / "b.csv")],
        "own_records": "/in/c.jsonl",
    }
