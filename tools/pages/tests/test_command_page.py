"""The page of the command line is the command line's own, and tells what the environment may say."""

from __future__ import annotations

import re
from pathlib import Path

from harness.system.errors import Exit
from harness.world import settings
from tools.pages.command_page import PAGE, page_text


def test_the_page_is_made_from_the_commands_as_they_are() -> None:
    assert PAGE.read_text(encoding="utf-8") == page_text(), "run: python -m tools.pages.command_page"


def test_the_page_tells_every_variable_that_worlds_read() -> None:
    read = set(re.findall(r"\b(?:FLOODMARK|DOCKER)_[A-Z_]+\b", Path(settings.__file__).read_text("utf-8")))

    assert read
    assert not [name for name in read if f"| `{name}` |" not in page_text()]


def test_a_command_inside_a_group_has_its_section() -> None:
    assert "## `floodmark sut serve`\n\n`floodmark sut serve [OPTIONS] NAME`" in page_text()


def test_the_page_tells_every_exit_code() -> None:
    assert re.findall(r"^\| (\d+) \|", page_text(), re.MULTILINE) == [str(int(code)) for code in Exit]
