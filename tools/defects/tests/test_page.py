"""Claims about `docs/reference/mutants.md`: it is what the code would write, and its matrix is one of success."""

from __future__ import annotations

import re

from harness.tests.tidy import ROOT
from tools.defects import IN_RUNS, OURS
from tools.defects.equivalents import EQUIVALENTS
from tools.kill_matrix import opening

PAGE = (ROOT / "docs" / "reference" / "mutants.md").read_text("utf-8")


def test_what_stands_above_the_matrix_is_what_the_code_says() -> None:
    """`python -m tools.kill_matrix --write docs/reference/mutants.md` makes it anew."""
    assert PAGE.startswith(opening())


def test_every_mutant_has_its_row_and_every_cell_that_is_meant_for_it_a_conviction() -> None:
    matrix = PAGE.partition("## The matrix")[2].partition("## Equivalents")[0]
    rows = {
        name: line for line in matrix.splitlines() for name in re.findall(r"^\|[^|]*\| `([^`]+)` \|", line)
    }

    assert tuple(rows) == OURS
    for name, line in rows.items():
        meant = re.findall(r"\*\*([^*]+)\*\*", line)
        assert len(meant) == len(IN_RUNS[name].convicted_by)
        assert all(cell.isdigit() for cell in meant)


def test_the_reference_is_convicted_by_nobody_on_the_page() -> None:
    (line,) = [line for line in PAGE.splitlines() if line.startswith("|  | the reference |")]

    assert "!" not in line
    assert re.search(r"the reference: 0 of \d+ runs convicted", PAGE)


def test_every_equivalent_is_named_with_its_argument_and_convicted_by_nobody() -> None:
    lines = PAGE.partition("## Equivalents")[2].splitlines()

    for one in EQUIVALENTS:
        (line,) = [line for line in lines if line.startswith(f"| `{one.name}` | {one.where} |")]
        assert one.because in line
        assert line.endswith(" | 0 |")
