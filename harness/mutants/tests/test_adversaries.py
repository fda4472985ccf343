"""Claims about defects that nobody planned for: random situations convict them too, and what never ends is stuck."""

from __future__ import annotations

import pytest

from harness.mutants.tests.adversaries import ADVERSARIES, DRAINS_BY_TURNING, FAILS_ALWAYS
from harness.sim import patience
from harness.sim.situation_drawing import draw_situation
from harness.sim.situation_run import simulate
from harness.sim.sweep import judged
from harness.sut.variant import HONEST, Variant

_SEEDS = 15


def _convicting(seed: int, variant: Variant) -> set[str]:
    judgement = judged(simulate(draw_situation(seed), seed=seed, variant=variant))
    return {verdict.invariant for verdict in judgement.invariants if verdict.anomalies}


@pytest.mark.parametrize("name", ADVERSARIES)
def test_a_defect_that_no_catalogue_names_is_convicted_within_a_few_situations(name: str) -> None:
    variant, invariant, first = ADVERSARIES[name]

    seed = next(
        (seed for seed in range(first, first + _SEEDS) if invariant in _convicting(seed, variant)), None
    )

    assert seed is not None
    assert not _convicting(seed, HONEST)


def test_an_operator_that_fails_again_and_again_is_stuck() -> None:
    assert "V16" in _convicting(1, FAILS_ALWAYS)


def test_an_operator_that_turns_for_ever_at_one_instant_is_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "_LOOKS_EVERY_S", 0.05)

    assert "V16" in _convicting(1, DRAINS_BY_TURNING)
