"""`docs/tutorial/first-verdict.md`: its functions, run by its commands, get the verdicts that the page shows."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cli.main import main

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "tutorial" / "first-verdict.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
MODULE = "enrich"


def steps() -> Iterator[tuple[str, str, str]]:
    """Each command of the page with the function that is saved by then, and what it prints."""
    program = ""
    for language, block in BLOCK.findall(PAGE):
        if language == "python":
            program = block
        else:
            command, shown = block.split("\n", 1)
            yield program, command.removeprefix("$ floodmark "), shown


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop(MODULE, None)


@pytest.mark.parametrize(
    ("program", "command", "shown"), list(steps()), ids=["convicted", "mended", "faulty"]
)
def test_a_command_of_the_tutorial_prints_what_the_page_shows(
    folder: Path, capsys: pytest.CaptureFixture[str], program: str, command: str, shown: str
) -> None:
    (folder / f"{MODULE}.py").write_text(program)

    code = main(shlex.split(command))

    printed = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines()) + "\n"
    assert code == ("VIOLATED" in shown)
    assert re.search(".*".join(map(re.escape, shown.split("...\n"))), printed, re.DOTALL)


def test_the_tutorial_and_the_front_page_end_with_the_same_function() -> None:
    mended = [block for language, block in BLOCK.findall(PAGE) if language == "python"][-1]

    assert mended in (DOCS.parent / "README.md").read_text(encoding="utf-8")
