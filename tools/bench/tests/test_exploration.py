"""The table of exploration: what was not tried is not counted, and the peer searches the same system."""

from __future__ import annotations

import pytest

from harness.explore.trial import Subject
from tools.bench.exploration import Left, Measured, summary
from tools.bench.exploration_machine import run_machine

LEFT = Left(shows="V8 lost", faults=1, records=4, lines=9, seconds=2.0, is_shown_again=True)
FOUND = Measured(name="one", explored=3, drawn=None, machine=7, left=LEFT)
MISSED = Measured(name="two", explored=None, drawn=5, machine=None)


def test_the_share_is_of_what_was_tried() -> None:
    told = "\n".join(summary([FOUND, MISSED], asked=90, runs=10, shrink_s=9))

    assert "| 90; 2 |" in told
    assert "| 1 of 2 (50 %) | 95 % | no |" in told


def test_a_search_that_found_nothing_is_a_dash() -> None:
    assert MISSED.row().startswith("| `two` | - | 5 | - |")
    assert "1 / 4 / 9" in FOUND.row()


@pytest.mark.sweep
def test_the_state_machine_finds_a_plain_defect_and_convicts_no_reference() -> None:
    found = run_machine(Subject(mutant="settles-twice"), runs=20, budget_s=20)
    honest = run_machine(Subject(), runs=6, budget_s=20)

    assert found.found_at is not None
    assert ("V8", "duplicate") in found.violations
    assert honest.found_at is None
