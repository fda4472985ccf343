"""`docs/reference/sut-protocol.md` is true: its conversation takes place, and it names everything (D17, D18)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from harness.conform.protocol.conversation_file import conversation_in
from harness.conform.protocol.events import Event
from harness.sut.serve import SYSTEMS
from harness.sut.serve.config import Code
from harness.sut.serve.conversation import COMMANDS
from harness.sut.serve.line import LINE_MAX
from harness.sut.serve.tests.speaking import QUIET, spoken_in_process

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "sut-protocol.md"
LINES_MAX = 250


@pytest.fixture(scope="module")
def page() -> str:
    """The page as it stands in the repository."""
    return PAGE.read_text(encoding="utf-8")


def test_the_pages_conversation_takes_place_to_the_letter(page: str) -> None:
    [story] = re.findall(r"^```\n(> .*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    exchanges = [exchange for exchange in conversation_in(story, name=PAGE.name).exchanges if exchange.line]

    answers = spoken_in_process("reference", exchanges, profile="strict")

    assert [[*answer, QUIET] for answer in answers] == [list(exchange.answer) for exchange in exchanges]


def test_the_page_names_every_command_event_code_and_ability(page: str) -> None:
    events = [event.__struct_config__.tag for event in get_args(Event)]
    abilities = [ability for system in SYSTEMS.values() for ability in system.abilities]
    named = {*re.findall(r"`([a-z-_]+)`", page)}

    assert {*COMMANDS, *events, *Code, *abilities} <= named


def test_the_page_names_the_limit_of_a_line(page: str) -> None:
    assert f"{LINE_MAX >> 20} MiB" in page


def test_the_page_is_short(page: str) -> None:
    assert len(page.splitlines()) <= LINES_MAX
