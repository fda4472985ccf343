"""What runs are grouped by: the same words for the same defect, other words for another."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.history.verdict import Anomaly, InvariantVerdict, Judgement, Outcome
from harness.scenario.outcome import Pitfall, RunOutcome, Threshold, WorldDescription
from harness.scenario.symptom import worth_showing

RAISED = "subtask 1 has failed 4 times: the lookup raised KeyError: {0} for record {0} (enrich.py:7)"
UNMEASURED = Threshold(name="recovery_p95", limit=1.0, value=None, verdict="unknown")
PITFALL = Pitfall(name="no-pause", says="", advice="", evidence={})


def ended(outcome: Outcome, *, broke: Mapping[str, str] = {}, **more: Any) -> RunOutcome:
    """A run with this verdict; `broke`: the kind of anomaly of each violated invariant."""
    violations = [
        InvariantVerdict(
            invariant=name,
            outcome=Outcome.FAIL,
            anomalies=(Anomaly(kind=kind, say=f"record {len(kind)} is gone", events=(1,)),),
        )
        for name, kind in broke.items()
    ]
    fields: dict[str, Any] = {
        **dict.fromkeys(("run_id", "scenario", "about", "level", "sut", "started_at", "again"), ""),
        **{name: {} for name in ("plan", "phases_s", "accounting", "versions")},
        "seed": 1,
        "mutant": None,
        "convicts": (),
        "faults": (),
        "history": Path(),
        "duration_s": 0.0,
        "world": WorldDescription(kind="local", why="", server="", proxy="", ready_s=0.0),
        "judgement": Judgement(outcome=outcome, invariants=tuple(violations)),
    }
    return RunOutcome(**{**fields, **more})


def test_a_run_that_simply_passed_has_no_cause() -> None:
    assert ended(Outcome.PASS).cause == ""


def test_a_violation_is_named_by_invariant_and_class_and_what_the_database_lost_comes_first() -> None:
    assert ended(Outcome.FAIL, broke={"V1": "reordered"}).cause == "V1 reordered"
    assert ended(Outcome.FAIL, broke={"V1": "reordered", "V8": "lost"}).cause == "V8 lost"


def test_an_exception_is_named_by_its_line_whatever_it_broke_and_for_which_record() -> None:
    causes = {
        ended(outcome, broke=broke, error=RAISED.format(record)).cause
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
        ended(Outcome.UNKNOWN, error=f"the budget of {n} s was over at record {n}").cause for n in (3, 17)
    }

    assert causes == {"stopped early: the budget of n s was over at record n"}


@pytest.mark.parametrize(
    ("run", "cause"),
    [
        (ended(Outcome.UNKNOWN, interrupted=True), "interrupted while it ran"),
        (ended(Outcome.UNKNOWN), "unknown: nothing was shown"),
        (ended(Outcome.UNKNOWN, thresholds=(UNMEASURED,)), "threshold recovery_p95 not held"),
        (ended(Outcome.PASS, pitfalls=(PITFALL,)), "pitfall no-pause"),
        (
            ended(Outcome.UNKNOWN, mutant="x", convicts=("V8",), interrupted=True),
            "planted x: not convicted; interrupted while it ran",
        ),
    ],
)
def test_what_shows_nothing_says_why(run: RunOutcome, cause: str) -> None:
    assert run.cause == cause


def test_runs_that_are_vacuous_for_other_reasons_have_other_causes_whatever_their_numbers() -> None:
    def cause(why: str) -> str:
        verdict = InvariantVerdict(invariant="V23", outcome=Outcome.VACUOUS, why=why)
        return ended(
            Outcome.VACUOUS, judgement=Judgement(outcome=Outcome.VACUOUS, invariants=(verdict,))
        ).cause

    left_nothing, never_began = "the fault cut (event 7) left no evidence", "the fault kill never began"
    assert cause(left_nothing) == "V23 vacuous: the fault cut (event n) left no evidence"
    assert cause(left_nothing.replace("7", "9")) == cause(left_nothing) != cause(never_began)


def test_a_planted_defect_is_named_with_what_convicted_it() -> None:
    broke = {"V8": "lost", "V2": "crossed"}

    planted = ended(Outcome.FAIL, broke=broke, mutant="segment-leak", convicts=("V2",))

    assert planted.cause == "planted segment-leak: convicted by V2 crossed"


def test_of_few_runs_all_are_shown_but_one_cause_only_once() -> None:
    assert worth_showing([("", True)] * 4) == [0, 1, 2, 3]
    assert worth_showing([("", True), ("V8 lost", False), ("V8 lost", False)]) == [0, 1]


def test_of_more_causes_than_are_shown_those_as_expected_give_way() -> None:
    runs = [(f"planted {n}", True) for n in range(30)] + [("V8 lost", False)]

    assert worth_showing(runs) == [*range(19), 30]


def test_without_a_run_nothing_is_shown() -> None:
    assert worth_showing([]) == []
