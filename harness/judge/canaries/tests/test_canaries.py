"""The judge convicts each canary of its class, and a judge that looks away is found out (T9).

That both judges say of each what its file claims, `harness/judge/checkers/tests/test_catalogue.py` shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest

from harness.history.invariants import INVARIANTS
from harness.history.outside import OutsideEvent, OutsideHeader
from harness.history.read import read_whole
from harness.history.verdict import Judgement
from harness.judge.canaries.canary import canaries, is_found, overlooked
from harness.judge.checkers.judge import judge
from harness.judge.checkers.outside.judge import judge_outside
from harness.judge.checkers.registry import CHECKERS
from harness.judge.checkers.tests.test_catalogue import CLASSES
from tools.defects.harness import skipping_last_attempt

OF_OPERATORS, OF_JOBS = canaries("operator"), canaries("jobs")
JUDGED_OUTSIDE = ("V1", "V3", "V8", "V13", "V16", "V20", "V23", "V24")
OUTSIDE_CLASSES = {
    "reordered", "key-reordered", "phantom", "duplicate", "wrong-value", "deleted", "lost", "changed-again",
    "zombie-effect", "stuck", "swallowed", "row-foreign", "row-doubled", "double-routed", "unexplained-failure",
}  # fmt: skip


def test_every_invariant_and_every_class_has_its_canary_trust9() -> None:
    assert {canary.invariant for canary in OF_OPERATORS} == {*INVARIANTS, "honest"}
    assert {(canary.invariant, canary.kind) for canary in OF_OPERATORS if canary.kind} == {
        (name, kind) for name, kinds in CLASSES.items() for kind in kinds
    }
    assert {canary.invariant for canary in OF_JOBS} == {*JUDGED_OUTSIDE, "honest"}
    assert {canary.kind for canary in OF_JOBS if canary.kind} == OUTSIDE_CLASSES


def test_the_judge_overlooks_none_trust9() -> None:
    assert overlooked(judge, [*OF_OPERATORS, *canaries("files")]) == ()
    assert overlooked(judge_outside, OF_JOBS) == ()


def test_a_conviction_of_another_class_does_not_count_trust9() -> None:
    duplicate = next(canary for canary in OF_OPERATORS if canary.kind == "duplicate")
    phantom = next(canary for canary in OF_OPERATORS if canary.kind == "phantom")

    assert not is_found(duplicate, judge(*read_whole(phantom.path)))


def test_a_judge_who_is_not_shown_the_last_attempt_overlooks_most_of_them() -> None:
    missed = overlooked(skipping_last_attempt(judge), OF_OPERATORS)

    assert {"V1 reordered", "V5 crossed", "V8 duplicate", "V11 restore-differs", "V15 tries"} <= set(missed)


def test_a_judge_who_convicts_everybody_is_found_out_too() -> None:
    def severe(_header: object, _events: object) -> Judgement:
        return judge(*read_whole(OF_OPERATORS[0].path))

    assert {"honest stream", "honest rows"} <= set(overlooked(severe, OF_OPERATORS))


def test_a_checker_that_falls_silent_is_found_out_trust9() -> None:
    for checker in CHECKERS:
        others = [one for one in CHECKERS if one is not checker]
        mine = [canary for canary in OF_OPERATORS if canary.invariant == checker.name]

        missed = overlooked(partial(judge, checkers=others), mine)

        assert missed == tuple(canary.name for canary in mine) != (), checker.name


@pytest.mark.parametrize("invariant", JUDGED_OUTSIDE)
def test_an_invariant_that_is_not_judged_is_found_out_trust9(invariant: str) -> None:
    others = [name for name in JUDGED_OUTSIDE if name != invariant]

    missed = overlooked(partial(judge_outside, invariants=others), OF_JOBS)

    assert any(name.startswith(f"{invariant} ") for name in missed)


@pytest.mark.parametrize("kept", [("row",), ("table",), ("offer", "row")])
def test_a_judge_who_is_shown_half_of_a_history_is_found_out_trust9(kept: Sequence[str]) -> None:
    def half(header: OutsideHeader, events: list[OutsideEvent]) -> Judgement:
        return judge_outside(header, [one for one in events if one.__struct_config__.tag not in kept])

    assert overlooked(half, OF_JOBS)
