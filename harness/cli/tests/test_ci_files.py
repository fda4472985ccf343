"""The CI files that `floodmark init` writes: valid by the published schemas, and their commands run as they stand."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from harness.cli.init import CI_FILES, FILES, JOB_CI_FILES, JOB_FILES
from harness.tests.tidy import ROOT

GITHUB, GITLAB = ".github/workflows/floodmark.yml", ".gitlab-ci.yml"
INSTALL = "pip install "


def document(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


def breaches(name: str, text: str) -> Iterator[str]:
    """What the published schema, as check-jsonschema ships it, finds in a file."""
    pytest.importorskip("check_jsonschema", reason="the schemas of CI files come with it: make install")
    shipped = files("check_jsonschema.builtin_schemas.vendor").joinpath(f"{name}.json")
    validator: Any = importlib.import_module("jsonschema").Draft7Validator(
        json.loads(shipped.read_text("utf-8"))
    )
    yield from (error.message for error in validator.iter_errors(document(text)))


def commands(made: Mapping[str, str], name: str) -> list[str]:
    """The commands of a CI file, in order."""
    read = document(made[name])
    if name == GITLAB:
        return list(read["floodmark"]["script"])
    return [step["run"] for step in read["jobs"]["holds"]["steps"] if "run" in step]


@pytest.mark.parametrize("made", [CI_FILES, JOB_CI_FILES], ids=["lookup", "job"])
@pytest.mark.parametrize(("schema", "name"), [("github-workflows", GITHUB), ("gitlab-ci", GITLAB)])
def test_a_file_is_valid_by_its_published_schema(made: Mapping[str, str], schema: str, name: str) -> None:
    assert list(breaches(schema, made[name])) == []


@pytest.mark.parametrize(
    ("schema", "name", "right", "wrong"),
    [
        ("github-workflows", GITHUB, "runs-on:", "run-on:"),
        ("gitlab-ci", GITLAB, "when: always", "when: ever"),
    ],
)
def test_a_slip_in_a_file_is_seen(schema: str, name: str, right: str, wrong: str) -> None:
    assert list(breaches(schema, CI_FILES[name].replace(right, wrong)))


@pytest.mark.parametrize("made", [CI_FILES, JOB_CI_FILES], ids=["lookup", "job"])
def test_both_run_the_same_commands(made: Mapping[str, str]) -> None:
    github, gitlab = commands(made, GITHUB), commands(made, GITLAB)

    assert github[: len(gitlab)] == gitlab
    assert github[0].startswith(INSTALL)


def test_init_writes_them() -> None:
    assert CI_FILES.items() <= FILES.items()
    assert JOB_CI_FILES.items() <= JOB_FILES.items()


def test_the_page_shows_them_as_they_are_written() -> None:
    page = (ROOT / "docs" / "how-to" / "ci.md").read_text("utf-8")

    assert all(f"```yaml\n{text}```\n" in page for text in CI_FILES.values())


@pytest.mark.real
@pytest.mark.timeout(600)  # a run of every command of the script
def test_the_commands_run_as_a_script_and_leave_the_report(tmp_path: Path) -> None:
    """Without the installation, which a clean clone was given by hand."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    python = (sys.executable, "-m")
    ours = {"pytest": (*python, "pytest"), "floodmark": (*python, "harness")}
    environment = {
        **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        "CI": "true",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "PYTHONPATH": str(ROOT),
    }
    script = ["set -e", *(f'{name}() {{ {" ".join(words)} "$@"; }}' for name, words in ours.items())]
    script += [command for command in commands(FILES, GITHUB) if not command.startswith(INSTALL)]

    answer = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "as expected" in (tmp_path / "summary.md").read_text()
    report = tmp_path / "floodmark-report"
    assert (report / "pytest.xml").is_file()
    assert (report / "runs" / "junit.xml").is_file()
