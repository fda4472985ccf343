"""Claims about the canaries: the judge convicts each by its invariant, and one that looks away is found out."""

from __future__ import annotations

import pytest

from harness.checkers.judge import judge
from harness.defects.canaries import CANARIES, HONEST, Canary, overlooked
from harness.defects.harness import skipping_last_attempt
from harness.errors import HarnessError
from harness.verdict import INVARIANTS, Outcome


def test_every_invariant_has_its_canary() -> None:
    assert [canary.invariant for canary in CANARIES] == list(INVARIANTS)


@pytest.mark.parametrize("canary", CANARIES, ids=lambda canary: canary.invariant)
def test_a_canary_is_convicted_by_its_invariant(canary: Canary) -> None:
    verdicts = {verdict.invariant: verdict.outcome for verdict in judge(*canary.history()).invariants}

    assert verdicts[canary.invariant] is (Outcome.VACUOUS if canary.invariant == "V23" else Outcome.FAIL)


def test_nothing_is_overlooked_by_the_judge() -> None:
    assert overlooked(judge) == ()


def test_a_judge_who_is_not_shown_the_last_attempt_overlooks_most_of_them() -> None:
    missed = overlooked(skipping_last_attempt(judge))

    assert {"V1", "V5", "V8", "V11", "V15", "V21"} <= set(missed)


def test_a_judge_who_convicts_everybody_is_found_out_too() -> None:
    def severe(_header: object, _events: object) -> object:
        return judge(*CANARIES[0].history())

    assert "acquittal" in overlooked(severe)  # type: ignore[arg-type]


def test_a_canary_that_is_no_history_is_a_defect_of_ours() -> None:
    with pytest.raises(HarnessError, match="V8"):
        Canary(invariant="V8", events="start pos=0").history()


def test_the_honest_history_passes() -> None:
    assert judge(*Canary(invariant="none", events=HONEST).history()).outcome is Outcome.PASS
