"""`docs/tutorial/your-job.md` and `docs/how-to/jobs.md`: what a reader saves and types is what the program takes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from harness.cli.job import job
from harness.jobs.job_file import read_job
from harness.jobs.job_scenarios import job_catalogue
from harness.tests.tidy import ROOT

_TUTORIAL = (ROOT / "docs" / "tutorial" / "your-job.md").read_text(encoding="utf-8")
_HOW_TO = (ROOT / "docs" / "how-to" / "jobs.md").read_text(encoding="utf-8")
SAVED = dict(re.findall(r"^```(?:python|toml)\n# (\S+)\n(.*?)^```", _TUTORIAL, re.MULTILINE | re.DOTALL))
COMMANDS = sorted(
    set(re.findall(r"^(?:\$ )?floodmark job (.*?)(?:\s+#.*)?$", _TUTORIAL + _HOW_TO, re.MULTILINE))
)


def test_the_job_file_of_the_tutorial_is_complete_and_names_what_its_job_reads(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(SAVED["job.toml"])

    read = read_job(tmp_path / "job.toml")

    assert set(re.findall(r'os\.environ\["(\w+)"\]', SAVED["job.py"])) == read.job.env.keys()
    assert read.sink.schema_file == "sink.sql"


@pytest.mark.parametrize("name", [name for name in SAVED if name.endswith(".py")])
def test_a_program_of_the_tutorial_compiles(name: str) -> None:
    compile(SAVED[name], name, "exec")


def test_the_mended_job_writes_rows_and_number_in_one_transaction() -> None:
    mended = SAVED["mended.py"]

    assert mended.count("commit()") == 1
    assert mended.index("UPDATE progress") < mended.index("INSERT INTO enriched") < mended.index("commit()")


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_of_the_pages_is_taken(words: str) -> None:
    parsed = job.make_context("job", shlex.split(words), resilient_parsing=False)

    assert set(parsed.params["scenarios"]) - {"all", "NAME"} <= job_catalogue().keys()


def test_each_class_that_the_page_tells_to_mend_is_one_of_the_format() -> None:
    table = _HOW_TO.partition("## What a conviction means")[2].partition("##")[0]
    told = set(re.findall(r"`([a-z]+(?:-[a-z]+)*)`", table)) - {"late-commit", "overwrite"}
    format_page = (ROOT / "docs" / "reference" / "history-outside.md").read_text(encoding="utf-8")

    assert told
    assert not {name for name in told if f"`{name}`" not in format_page}
