"""The differential finds each planted defect and shrinks it, and acquits each odd but legal habit."""

from __future__ import annotations

import sys

import pytest

from harness.conform.protocol.comparison import MismatchKind, report
from harness.conform.protocol.differential import common_settings, compare_systems
from harness.conform.protocol.driver import Twins
from harness.conform.protocol.program import Limits
from harness.conform.protocol.tests import fake_operator
from harness.conform.protocol.tests.fake_operator import DEFECTS, HABITS
from harness.system.errors import NothingRan
from tools.cases import in_sweep_after

LIMITS = Limits(answer_s=20.0)
BREACHES = {
    "accepts anything when blocked",
    "dies at a snapshot",
    "numbers calls from 2",
    "stores the waiting element",
}
"""Defects that break the protocol itself: each run of such a script costs two new processes."""


def fake(plant: str = "") -> list[str]:
    return [sys.executable, "-S", "-E", fake_operator.__file__, plant]


@pytest.mark.parametrize(
    "defect",
    in_sweep_after(1, sorted(DEFECTS - BREACHES, key=lambda name: (name != "drops the second result", name))),
)
def test_a_planted_defect_is_found_and_shrunk_to_a_few_commands(defect: str) -> None:
    with Twins(fake(), fake(defect), limits=LIMITS) as twins:
        settings = common_settings(twins, mode="both", profile="strict")

        (found,) = compare_systems(twins, seed=1, scripts=300, settings=settings, shrink_runs=500).differences

    assert found.mismatch.kind not in {MismatchKind.ONCE, MismatchKind.LEFT_BREACH, MismatchKind.RIGHT_BREACH}
    assert found.script.length <= 12
    assert "to paste" in report(found)


@pytest.mark.parametrize("defect", in_sweep_after(1, sorted(BREACHES)))
def test_a_planted_breach_is_pinned_to_its_script_though_many_were_on_their_way(defect: str) -> None:
    with Twins(fake(defect), fake(), limits=LIMITS) as twins:
        settings = common_settings(twins, mode="ordered", profile="strict")

        (found,) = compare_systems(twins, seed=1, scripts=300, settings=settings, shrink_runs=8).differences

    assert found.mismatch.kind is MismatchKind.LEFT_BREACH
    assert found.script.length < 50
    assert "at command" in report(found)


@pytest.mark.sweep
@pytest.mark.parametrize("habit", in_sweep_after(1, sorted(HABITS)))
def test_an_odd_but_legal_habit_is_acquitted(habit: str) -> None:
    with Twins(fake(), fake(habit), limits=LIMITS) as twins:
        settings = common_settings(twins, mode="both", profile="strict")

        outcome = compare_systems(twins, seed=2, scripts=150, settings=settings)

    assert [report(one) for one in outcome.differences] == []
    assert outcome.scripts == 150


def test_a_difference_that_does_not_show_again_is_told_as_such() -> None:
    """A system whose lives are not alike: run again, later, each script is."""
    with Twins(fake("miscounts in its youth"), fake(), limits=LIMITS) as twins:
        settings = common_settings(twins, mode="ordered", profile="strict")

        (found,) = compare_systems(twins, seed=3, scripts=100, settings=settings).differences

    assert found.mismatch.kind is MismatchKind.ONCE
    assert MismatchKind.STATS in found.mismatch.detail


def test_systems_that_share_no_claim_are_not_compared() -> None:
    with Twins(fake(), fake(), limits=LIMITS) as twins, pytest.raises(NothingRan, match="fake and fake"):
        common_settings(twins, mode="both", profile="flink")
