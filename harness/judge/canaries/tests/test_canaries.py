"""Claims about the canaries: the judge convicts each of its class, and one that looks away is found out (T9)."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from harness.history.read import read_whole
from harness.history.verdict import INVARIANTS, Judgement, Outcome
from harness.judge import checkers
from harness.judge.canaries.all import CANARIES, HONEST_ONES
from harness.judge.canaries.canary import Canary, is_found, overlooked
from harness.judge.canaries.of_tables import WRITTEN
from harness.judge.checkers.invariant import Invariant
from harness.judge.checkers.judge import judge
from harness.judge.checkers.registry import CHECKERS
from harness.system.errors import HarnessError
from tools.defects.harness import skipping_last_attempt

CATALOGUE = Path(checkers.__file__).parent / "tests" / "catalogue"
EXAMPLES = sorted(file for file in CATALOGUE.glob("V*/*.jsonl"))


def classes_of(judgement: Judgement) -> set[tuple[str, str]]:
    return {(found.invariant, one.kind) for found in judgement.invariants for one in found.anomalies}


def test_every_invariant_has_its_canary_trust9() -> None:
    assert {canary.invariant for canary in CANARIES} == {*INVARIANTS, ""}


def test_every_class_that_the_checkers_tell_has_its_canary_trust9() -> None:
    told = set().union(*(classes_of(judge(*read_whole(file))) for file in EXAMPLES))

    assert len(told) > 70
    assert told == {(canary.invariant, canary.kind) for canary in CANARIES if canary.kind}


@pytest.mark.parametrize("canary", CANARIES, ids=lambda canary: canary.name)
def test_a_canary_is_convicted_of_its_class_trust9(canary: Canary) -> None:
    assert is_found(canary, judge(*canary.history()))


def test_a_conviction_of_another_class_does_not_count_trust9() -> None:
    duplicate = next(canary for canary in CANARIES if canary.kind == "duplicate")
    phantom = next(canary for canary in CANARIES if canary.kind == "phantom")

    assert not is_found(duplicate, judge(*phantom.history()))


def test_a_judge_who_is_not_shown_the_last_attempt_overlooks_most_of_them() -> None:
    missed = overlooked(skipping_last_attempt(judge), CANARIES)

    assert {"V1 reordered", "V5 crossed", "V8 duplicate", "V11 restore-differs", "V15 tries"} <= set(missed)


def test_a_judge_who_convicts_everybody_is_found_out_too() -> None:
    def severe(_header: object, _events: object) -> Judgement:
        return judge(*CANARIES[0].history())

    assert "honest stream" in overlooked(severe, CANARIES)


@pytest.mark.parametrize("checker", CHECKERS, ids=lambda checker: checker.name)
def test_a_checker_that_falls_silent_is_found_out_trust9(checker: Invariant) -> None:
    others = [one for one in CHECKERS if one is not checker]
    mine = [canary for canary in CANARIES if canary.invariant == checker.name]

    missed = overlooked(partial(judge, checkers=others), mine)

    assert missed == tuple(canary.name for canary in mine) != ()


def test_a_canary_that_is_no_history_is_a_defect_of_ours() -> None:
    with pytest.raises(HarnessError, match="V8 lost"):
        Canary(invariant="V8", kind="lost", events="start pos=0").history()


@pytest.mark.parametrize("canary", HONEST_ONES)
def test_the_honest_histories_pass(canary: Canary) -> None:
    assert judge(*canary.history()).outcome is Outcome.PASS


def test_the_run_whose_rows_are_in_a_database_is_not_honest_without_them() -> None:
    assert judge(*WRITTEN.history()).outcome is Outcome.FAIL
