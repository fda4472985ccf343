"""What runs are grouped by: the same words for the same defect, other words for another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.history.verdict import Anomaly, InvariantVerdict, Judgement, Outcome
from harness.scenario.symptom import RunEnding, cause_of, worth_showing

RAISED = "subtask 1 has failed 4 times: the lookup raised KeyError: {0} for record {0} (enrich.py:7)"


def judged(outcome: Outcome, **violations: str) -> Judgement:
    return Judgement(
        outcome=outcome,
        invariants=tuple(
            InvariantVerdict(
                invariant=name,
                outcome=Outcome.FAIL,
                why="",
                observed=1,
                anomalies=(Anomaly(kind=kind, say=f"record {len(kind)} is gone", events=(1,)),),
            )
            for name, kind in violations.items()
        ),
    )


def failed(**more: object) -> RunEnding:
    return replace(RunEnding(as_expected=False), **more)  # type: ignore[arg-type]  # fields of Ended


def test_a_run_that_simply_passed_has_no_cause() -> None:
    assert cause_of(judged(Outcome.PASS), RunEnding()) == ""


def test_a_violation_is_named_by_invariant_and_class_and_what_the_database_lost_comes_first() -> None:
    assert cause_of(judged(Outcome.FAIL, V1="reordered"), failed()) == "V1 reordered"
    assert cause_of(judged(Outcome.FAIL, V1="reordered", V8="lost"), failed()) == "V8 lost"


def test_an_exception_is_named_by_its_line_whatever_it_broke_and_for_which_record() -> None:
    causes = {
        cause_of(judged(outcome, **broke), failed(error=RAISED.format(record)))
        for record, (outcome, broke) in enumerate(
            [
                (Outcome.FAIL, {"V24": "unexplained-failure"}),
                (Outcome.FAIL, {"V8": "lost"}),
                (Outcome.UNKNOWN, {}),
            ]
        )
    }

    assert causes == {"the lookup raised KeyError at enrich.py:7"}


def test_other_ends_are_the_same_whatever_their_numbers() -> None:
    causes = {
        cause_of(judged(Outcome.UNKNOWN), failed(error=f"the budget of {n} s was over at record {n}"))
        for n in (3, 17)
    }

    assert causes == {"stopped early: the budget of n s was over at record n"}


@pytest.mark.parametrize(
    ("ended", "cause"),
    [
        (failed(interrupted=True), "interrupted while it ran"),
        (failed(), "unknown: nothing was shown"),
        (failed(thresholds=["recovery_p95"]), "threshold recovery_p95 not held"),
        (RunEnding(pitfalls=["no-pause"]), "pitfall no-pause"),
        (
            failed(mutant="x", convicts=("V8",), interrupted=True),
            "planted x: not convicted; interrupted while it ran",
        ),
    ],
)
def test_what_shows_nothing_says_why(ended: RunEnding, cause: str) -> None:
    assert cause_of(judged(Outcome.UNKNOWN), ended) == cause


def test_a_planted_defect_is_named_with_what_convicted_it() -> None:
    planted = RunEnding(mutant="segment-leak", convicts=("V2",))

    assert (
        cause_of(judged(Outcome.FAIL, V8="lost", V2="crossed"), planted)
        == "planted segment-leak: convicted by V2 crossed"
    )


def test_of_few_runs_all_are_shown_but_one_cause_only_once() -> None:
    assert worth_showing([("", True)] * 4) == [0, 1, 2, 3]
    assert worth_showing([("", True), ("V8 lost", False), ("V8 lost", False)]) == [0, 1]


def test_of_more_causes_than_are_shown_those_as_expected_give_way() -> None:
    runs = [(f"planted {n}", True) for n in range(30)] + [("V8 lost", False)]

    assert worth_showing(runs) == [*range(19), 30]


def test_without_a_run_nothing_is_shown() -> None:
    assert worth_showing([]) == []
