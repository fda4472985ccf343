"""Defects that nobody planned for: random scenarios convict them too."""

from __future__ import annotations

import pytest

from harness.explore.drawing import draw_scenario
from harness.judge.checkers.judge import judge
from harness.levels.sim.run import simulate_scenario
from harness.scenario.order import Order
from harness.sut.variant import HONEST, Variant
from tools.defects.tests.adversaries import ADVERSARIES

_SEEDS = 40


def _convicting(seed: int, variant: Variant) -> set[str]:
    order = Order(scenario=draw_scenario(seed), level="sim", seed=seed)
    ran = simulate_scenario(order, variant=variant)
    judgement = variant.judge(judge)(ran.header, ran.events)
    return {verdict.invariant for verdict in judgement.invariants if verdict.anomalies}


@pytest.mark.parametrize("name", ADVERSARIES)
def test_a_defect_that_no_catalogue_names_is_convicted_within_a_few_scenarios(name: str) -> None:
    variant, invariant, first = ADVERSARIES[name]

    seed = next(
        (seed for seed in range(first, first + _SEEDS) if invariant in _convicting(seed, variant)), None
    )

    assert seed is not None
    assert not _convicting(seed, HONEST)
