"""A campaign's exit code: only if all that was asked for ran and passed is it 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from harness.engine.campaign import Finished
from harness.engine.tally import Counted, tallies
from harness.errors import Exit, WorldError
from harness.runs.order import Order
from harness.runs.outcome import RunOutcome, WorldDescription
from harness.scenario.file import load_many
from harness.verdict import Judgement, Outcome

PASS, VACUOUS, UNKNOWN, FAIL = Outcome.PASS, Outcome.VACUOUS, Outcome.UNKNOWN, Outcome.FAIL
ORDER = Order(scenario=load_many(["calm"])[0], level="live", seed=1)
BROKE = WorldError("the server went away")


def outcome(verdict: Outcome) -> RunOutcome:
    """A run that ended with `verdict`."""
    return RunOutcome(
        run_id="r",
        scenario="small",
        about="",
        plan={},
        level="live",
        seed=1,
        sut="reference",
        mutant=None,
        convicts=(),
        world=WorldDescription(kind="local", why="", server="", proxy="", ready_s=0.0),
        judgement=Judgement(outcome=verdict, invariants=()),
        faults=(),
        history=Path("history.jsonl"),
        started_at="",
        duration_s=0.0,
        phases_s={},
        accounting={},
        again="",
        versions={},
    )


@pytest.mark.parametrize(
    ("verdicts", "missing", "interrupted", "error", "code"),
    [
        ([PASS], 0, False, None, Exit.HOLD),
        ([PASS, PASS, PASS], 0, False, None, Exit.HOLD),
        ([PASS, FAIL], 0, False, None, Exit.VIOLATION),
        ([FAIL, UNKNOWN, VACUOUS], 0, False, None, Exit.VIOLATION),
        ([PASS, UNKNOWN], 0, False, None, Exit.UNDECIDED),
        ([PASS, VACUOUS], 0, False, None, Exit.UNDECIDED),
        ([PASS], 1, False, None, Exit.UNDECIDED),
        ([FAIL], 1, False, None, Exit.VIOLATION),
        ([], 1, False, None, Exit.UNDECIDED),
        ([PASS], 1, True, None, Exit.INTERRUPTED),
        ([PASS], 0, True, None, Exit.INTERRUPTED),
        ([UNKNOWN], 2, True, None, Exit.INTERRUPTED),
        ([FAIL, UNKNOWN], 2, True, None, Exit.VIOLATION),
        ([], 2, True, None, Exit.INTERRUPTED),
        ([PASS], 1, False, BROKE, Exit.ENVIRONMENT),
        ([UNKNOWN], 1, False, BROKE, Exit.UNDECIDED),
        ([VACUOUS], 1, False, BROKE, Exit.UNDECIDED),
        ([FAIL], 1, False, BROKE, Exit.VIOLATION),
        ([PASS], 1, True, BROKE, Exit.INTERRUPTED),
    ],
)
def test_the_exit_code_of(
    verdicts: Sequence[Outcome],
    missing: int,
    interrupted: bool,  # noqa: FBT001 - a case
    error: WorldError | None,
    code: Exit,
) -> None:
    finished = Finished(
        outcomes=tuple(outcome(verdict) for verdict in verdicts),
        tallies=tuple(
            tallies(
                [ORDER] * len(verdicts),
                [Counted.of(number, outcome(verdict)) for number, verdict in enumerate(verdicts)],
            )
        ),
        asked=len(verdicts) + missing,
        interrupted=interrupted,
        error=error,
    )

    assert finished.exit_code is code


def test_the_secrets_of_a_campaign_are_not_in_its_text() -> None:
    finished = Finished(outcomes=(), tallies=(), asked=0, interrupted=False, secrets=("hunter2",))

    assert "hunter2" not in repr(finished)


@pytest.mark.parametrize(
    ("outcome", "as_expected", "code"),
    [
        (FAIL, True, Exit.HOLD),
        (VACUOUS, True, Exit.HOLD),
        (PASS, False, Exit.VIOLATION),
        (FAIL, False, Exit.VIOLATION),
        (UNKNOWN, False, Exit.UNDECIDED),
    ],
)
def test_a_convicted_defect_holds_and_a_surviving_one_is_a_violation(
    outcome: Outcome,
    as_expected: bool,  # noqa: FBT001 - a case
    code: Exit,
) -> None:
    planted = replace(ORDER, mutant="late-results")
    run = Counted(order=0, outcome=outcome, as_expected=as_expected, events=1)

    finished = Finished(outcomes=(), tallies=tuple(tallies([planted], [run])), asked=1, interrupted=False)

    assert finished.exit_code is code


def test_a_pitfall_that_makes_a_run_fail_is_a_violation_to_the_exit_code_u2() -> None:
    run = Counted(order=0, outcome=PASS, as_expected=False, events=1, has_pitfall=True, falls=True)

    finished = Finished(outcomes=(), tallies=tuple(tallies([ORDER], [run])), asked=1, interrupted=False)

    assert finished.exit_code is Exit.VIOLATION
