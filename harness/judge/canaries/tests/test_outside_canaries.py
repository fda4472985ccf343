"""Claims about the canaries of jobs: the judge convicts each of its class, and one that looks away is found (T9)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest

from harness.history.outside import OutsideEvent, OutsideHeader
from harness.history.verdict import Judgement
from harness.judge.canaries.canary import is_found
from harness.judge.canaries.of_jobs import OF_JOBS
from harness.judge.canaries.outside_canary import OutsideCanary, overlooked_outside
from harness.judge.checkers.outside.judge import judge_outside

CLASSES = {
    "reordered", "key-reordered", "phantom", "duplicate", "wrong-value", "deleted", "lost", "changed-again",
    "zombie-effect", "stuck", "swallowed", "row-foreign", "row-doubled", "double-routed", "unexplained-failure",
}  # fmt: skip
JUDGED = ("V1", "V3", "V8", "V13", "V16", "V20", "V23", "V24")


def test_every_class_of_the_view_has_its_canary_trust9() -> None:
    assert {canary.kind for canary in OF_JOBS if canary.kind} == CLASSES
    assert {canary.invariant for canary in OF_JOBS} == {*JUDGED, ""}


@pytest.mark.parametrize("canary", OF_JOBS, ids=lambda canary: canary.name)
def test_a_canary_of_a_job_is_convicted_of_its_class_trust9(canary: OutsideCanary) -> None:
    assert is_found(canary, judge_outside(*canary.history()))


@pytest.mark.parametrize("invariant", JUDGED)
def test_an_invariant_that_is_not_judged_is_found_out_trust9(invariant: str) -> None:
    others = [name for name in JUDGED if name != invariant]

    missed = overlooked_outside(partial(judge_outside, invariants=others), OF_JOBS)

    assert any(name.startswith(f"{invariant} ") for name in missed)


@pytest.mark.parametrize("kept", [("row",), ("table",), ("offer", "row")])
def test_a_judge_who_is_shown_half_of_a_history_is_found_out_trust9(kept: Sequence[str]) -> None:
    def half(header: OutsideHeader, events: list[OutsideEvent]) -> Judgement:
        return judge_outside(header, [one for one in events if one.__struct_config__.tag not in kept])

    assert overlooked_outside(half, OF_JOBS)
