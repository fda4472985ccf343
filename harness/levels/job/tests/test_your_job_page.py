"""The pages about jobs: what a reader saves and types is what the program takes.

What the commands print is compared by `harness/tests/test_console_pages.py`.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from harness.cli.job import job
from harness.levels.job.job_file import read_job
from harness.levels.job.job_scenarios import job_catalogue
from harness.tests.console_page import Saved, session
from harness.tests.tidy import ROOT

_DOCS = ROOT / "docs"
_TUTORIAL = (_DOCS / "tutorial" / "your-job.md").read_text(encoding="utf-8")
_SPARK = (_DOCS / "how-to" / "spark-job.md").read_text(encoding="utf-8")
_HOW_TO = (_DOCS / "how-to" / "jobs.md").read_text(encoding="utf-8")
SAVED = [(saved.name, saved.text) for saved in session(_SPARK) if isinstance(saved, Saved)]
COMMANDS = sorted(
    set(re.findall(r"^(?:\$ )?floodmark job (.*?)(?:\s+#.*)?$", _TUTORIAL + _SPARK + _HOW_TO, re.MULTILINE))
)


def test_the_job_file_of_the_page_is_complete_and_names_what_its_job_reads(tmp_path: Path) -> None:
    saved = {step.name: step.text for step in session(_SPARK) if isinstance(step, Saved)}
    (tmp_path / "job.toml").write_text(saved["job.toml"])

    read = read_job(tmp_path / "job.toml")

    assert set(re.findall(r'os\.environ\["(\w+)"\]', saved["job.py"])) <= read.job.env.keys()
    assert read.sink.schema_file == "sink.sql"


@pytest.mark.parametrize(("name", "program"), [(name, text) for name, text in SAVED if name.endswith(".py")])
def test_a_program_of_the_pages_compiles(name: str, program: str) -> None:
    compile(program, name, "exec")


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_of_the_pages_is_taken(words: str) -> None:
    parsed = job.make_context("job", shlex.split(words), resilient_parsing=False)

    named = {one for one in parsed.params["scenarios"] if not one.endswith(".yaml")}
    assert named - {"all", "NAME"} <= job_catalogue().keys()


def test_each_class_that_the_page_tells_to_mend_is_one_of_the_format() -> None:
    table = _HOW_TO.partition("## What a conviction means")[2].partition("##")[0]
    told = set(re.findall(r"`([a-z]+(?:-[a-z]+)*)`", table)) - {"late-commit", "overwrite"}
    format_page = (ROOT / "docs" / "reference" / "history-outside.md").read_text(encoding="utf-8")

    assert told
    assert not {name for name in told if f"`{name}`" not in format_page}
