"""`docs/how-to/judge-your-own.md`: its program writes the history, its commands print what the page shows."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.history.event_fields import ALL_CLAIMS, kinds_of

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "judge-your-own.md").read_text(encoding="utf-8")
LINES_MAX = 60
DEFECT = "in asyncio.as_completed(calls)"


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


def written(folder: Path, program: str) -> Path:
    """The program, run by a bare Python as a stranger would."""
    subprocess.run([sys.executable, "-I", "-c", program], cwd=folder, check=True, timeout=60)
    return folder / "toy.jsonl"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_page_is_short() -> None:
    assert len(PAGE.splitlines()) <= LINES_MAX


def test_the_command_of_the_page_prints_what_the_page_shows(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(folder, block("python"))
    command, *shown = block("console").split("\n", 1)
    pieces = shown[0].split("...\n")

    code = main(shlex.split(command.removeprefix("$ floodmark ")))

    printed = capsys.readouterr().out
    assert code == 1
    assert printed.startswith(pieces[0])
    assert re.search(".*".join(map(re.escape, pieces)), printed, re.DOTALL)


def test_without_its_defect_the_program_passes_as_the_page_says(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"With `in calls` for `{DEFECT}`" in PAGE
    mended = block("python").replace(DEFECT, "in calls")
    assert mended != block("python")
    written(folder, mended)

    code = main(["check", "toy.jsonl"])

    assert code == 0
    assert capsys.readouterr().out.startswith("PASS")


def test_the_page_names_kinds_and_fields_that_there_are() -> None:
    table = [line.split("|")[2] for line in PAGE.splitlines() if line.startswith("| ")][1:]
    named = {name for cell in table for name in re.findall(r"`(\w+)`", cell)}
    kinds = kinds_of(ALL_CLAIMS).fields
    fields = {name for row in kinds.values() for name in row}

    assert named - set(kinds) - {"sink"} <= fields | {"a"}
    assert {"wm", "owm", "snap", "done", "kill", "start", "restore", "commit", "effect", "fault"} <= named
