"""The terminal: a green campaign fits a screen; a reader who has gone is told apart from a verdict."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.history.values import visible
from harness.scenario.outcome import CountedRun, RunOutcome
from harness.system.errors import HarnessError
from reports.agreement import refuse_other_lines
from reports.pretty import print_outcomes, terminal
from reports.tests import job_sample
from reports.tests.sample import counted_pass, hostile_outcome, lost_outcome, pass_outcome

SCREEN_LINES = 24
FAILED_LINES = 23
"""With the lines of the plan and the report 25."""
PASSED_LINES = 6
"""With these 8."""


def printed(*outcomes: RunOutcome) -> str:
    stream = io.StringIO()
    print_outcomes(outcomes, console=terminal(stream))
    return stream.getvalue()


class Gone(io.StringIO):
    """A pipe whose reader has closed it."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_reader_who_has_gone_is_no_exit_with_code_1_which_is_a_violation_u5() -> None:
    with pytest.raises(BrokenPipeError):
        terminal(Gone()).print("a line")


def test_a_green_campaign_fits_a_screen(tmp_path: Path) -> None:
    passed = pass_outcome(tmp_path)
    outcomes = [replace(passed, seed=seed) for seed in range(14)]

    text = printed(*outcomes)

    assert len(text.splitlines()) <= SCREEN_LINES
    assert "and 11 more runs, all as expected" in text
    assert "14 runs: 14 as expected" in text
    refuse_other_lines(text, outcomes)


def test_the_one_run_that_a_green_campaign_shows_is_printed_in_two_lines_and_the_total(
    tmp_path: Path,
) -> None:
    passed, stream = pass_outcome(tmp_path), io.StringIO()
    rows = [counted_pass(passed.scenario, seed, level=passed.level) for seed in range(1000)]

    print_outcomes([passed], console=terminal(stream), counted=rows)

    assert len(stream.getvalue().splitlines()) == 3
    assert "1000 runs: 1000 as expected, 0 not, 0 undecided." in stream.getvalue()


def test_the_printed_total_is_that_of_all_runs_though_two_are_shown(tmp_path: Path) -> None:
    passed, lost, stream = pass_outcome(tmp_path), lost_outcome(tmp_path), io.StringIO()
    rows = [CountedRun.of(passed), *[CountedRun.of(replace(lost, seed=seed)) for seed in range(6)]]

    print_outcomes([passed, lost], console=terminal(stream), counted=rows)

    assert "✗ NOT AS EXPECTED  7 runs: 1 as expected, 6 not, 0 undecided." in stream.getvalue()
    refuse_other_lines(stream.getvalue(), [passed, lost], rows)
    with pytest.raises(HarnessError, match="not that of all 7 runs"):
        refuse_other_lines(printed(passed, lost), [passed, lost], rows)


def test_one_run_that_is_not_green_is_printed_with_its_details(tmp_path: Path) -> None:
    outcomes = [pass_outcome(tmp_path), lost_outcome(tmp_path)]

    text = printed(*outcomes)

    assert "VIOLATED" in text
    with pytest.raises(HarnessError):
        refuse_other_lines(printed(outcomes[0]), outcomes)


@pytest.mark.parametrize(
    "made",
    [
        lost_outcome,
        hostile_outcome,
        job_sample.doubled,
        job_sample.lost,
        job_sample.zombie,
        job_sample.killed_twice,
    ],
)
def test_a_run_that_failed_is_told_on_one_screen_with_its_events_h2(
    tmp_path: Path, made: Callable[[Path], RunOutcome]
) -> None:
    outcome = made(tmp_path)

    text = printed(outcome)

    assert len(text.splitlines()) <= FAILED_LINES
    for said in ("✗ VIOLATED", f"again: {visible(outcome.again)}"):
        assert said in text
    assert text.count("\n    > ") >= 1, "no event of the counterexample is shown"


@pytest.mark.parametrize("made", [pass_outcome, job_sample.passed])
def test_a_run_that_passed_is_told_in_a_few_lines_h2(
    tmp_path: Path, made: Callable[[Path], RunOutcome]
) -> None:
    assert len(printed(made(tmp_path)).splitlines()) <= PASSED_LINES


def test_at_most_three_threats_are_shown_and_how_many_there_are_beside_h3(tmp_path: Path) -> None:
    text = printed(replace(pass_outcome(tmp_path), threats=("one", "two", "three", "four")))

    assert [line for line in text.splitlines() if "threat: " in line] == [
        "  threat: one",
        "  threat: two",
        "  threat: three (and 2 more: --verbose)",
    ]
