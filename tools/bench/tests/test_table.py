"""The table: a row says what it is held to, what was not measured is said, and the page keeps its other words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli.main import floodmark
from harness.system.errors import Exit, UsageError
from harness.tests.tidy import ROOT
from tools.bench import operator_rows
from tools.bench.row import NotMeasured, Row
from tools.bench.table import as_json, as_markdown, replaced

ROW = Row(
    name="ours against theirs",
    value=0.5,
    unit="x",
    rounds=5,
    goal=0.4,
    limit=1.0,
    larger_is_better=False,
    spread=(0.4, 0.61),
    detail="ours 1 us",
)
MISSING = NotMeasured(name="against nobody", reason="nobody is here")
PAGE = "# Page\n\n<!-- bench operator -->\nold\n<!-- end of bench operator -->\n\nkept\n"


def test_a_row_names_goal_limit_spread_and_whether_they_are_met() -> None:
    cells = [
        "0.50 x",
        "0.40 - 0.61",
        "<= 0.40 x (required 1.00)",
        "no, but what is required",
        "5",
        "ours 1 us",
    ]

    assert as_markdown([ROW]).splitlines()[-1] == f"| ours against theirs | {' | '.join(cells)} |"
    assert (ROW.met, ROW.within_limit) == (False, True)


def test_what_was_not_measured_stands_in_the_table_with_its_reason() -> None:
    assert (
        as_markdown([MISSING]).splitlines()[-1]
        == "| against nobody | not measured | | | | | nobody is here |"
    )


def test_json_holds_the_same() -> None:
    row, missing = json.loads(as_json([ROW, MISSING]))

    assert (row["value"], row["spread"], row["met"]) == (0.5, [0.4, 0.61], False)
    assert missing == {"name": "against nobody", "reason": "nobody is here"}


def test_only_what_stands_between_the_marks_is_replaced() -> None:
    assert replaced(PAGE, "operator", "new") == PAGE.replace("old", "new")


@pytest.mark.parametrize("page", ["", "<!-- bench operator -->", "<!-- end of bench operator -->"])
def test_a_page_without_the_marks_is_refused(page: str) -> None:
    with pytest.raises(UsageError, match="no part for `operator`"):
        replaced(page, "operator", "new")


@pytest.mark.parametrize("part", ["operator", "world", "spark"])
def test_the_projects_page_has_a_part_for_every_table(part: str) -> None:
    page = (ROOT / "docs" / "reference" / "performance.md").read_text("utf-8")

    assert replaced(page, part, "new") != page


def test_the_command_prints_the_table_says_what_lacks_and_writes_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator_rows, "operator_rows", lambda **given: iter([ROW, MISSING]))
    page = tmp_path / "page.md"
    page.write_text(PAGE)

    done = CliRunner().invoke(floodmark, ["bench", "operator", "--write", str(page)], standalone_mode=False)

    assert (done.return_value, done.exception) == (Exit.HOLD, None)
    assert as_markdown([ROW, MISSING]) in done.stdout
    assert "not measured: against nobody: nobody is here" in done.stderr
    assert as_markdown([ROW, MISSING]) in page.read_text()
    assert page.read_text().endswith("kept\n")


def test_a_machine_that_can_measure_nothing_is_said_to_have_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator_rows, "operator_rows", lambda **given: iter([MISSING]))

    done = CliRunner().invoke(floodmark, ["bench", "operator"], standalone_mode=False)

    assert done.return_value == Exit.ENVIRONMENT
