"""A chosen few invariants get the verdicts that they get among all, though their screen passes calls over."""

from __future__ import annotations

import pytest

from harness.judge.checkers.judge import judge
from harness.judge.checkers.registry import CHECKERS
from harness.judge.checkers.screen.tests.screening import Json, told
from harness.judge.checkers.tests.blind_mutations import mutated
from harness.judge.checkers.tests.legal_histories import legal_history
from harness.judge.checkers.tests.retried_histories import retried_history
from harness.judge.checkers.tests.wild_histories import wild_history
from harness.system.choices import Choices

FEW = [checker for checker in CHECKERS if checker.name in {"V1", "V2", "V3", "V4", "V5", "V7", "V8"}]
BATCHES = [*range(2), *(pytest.param(batch, marks=pytest.mark.sweep) for batch in range(2, 20))]


def without_calls(lines: list[Json]) -> list[Json]:
    return [line for line in lines if line.get("k") != "call"]


KINDS = {
    "legal": legal_history,
    "legal, without its calls": lambda seed: without_calls(legal_history(seed)),
    "mutated": lambda seed: mutated(legal_history(seed), Choices(seed, "blind mutations"), most=1 + seed % 3),
    "retried": retried_history,
    "wild": wild_history,
}


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_chosen_few_are_judged_alike_with_their_screen_and_without(kind: str, batch: int) -> None:
    for seed in range(batch * 10, batch * 10 + 10):
        found = told(KINDS[kind](seed))
        if found is None or not found.sound:
            continue

        screened = judge(found.header, found.events, checkers=FEW)

        assert screened == judge(found.header, found.events, checkers=FEW, screened=False), seed
