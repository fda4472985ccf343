"""Two judges that share no code find the same in histories seen from outside.

On random histories and on mutated ones: for each invariant the same outcome and the same anomalies, each once, with
the event that shows it, and one verdict. The first refuses the same ones of the mutated histories as the rules do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from harness.history.read import open_text
from harness.history.verdict import Judgement
from harness.judge.checkers.outside.judge import judge_outside
from harness.judge.checkers.outside.tests.naive_rules import keeps_the_rules
from harness.judge.checkers.outside.tests.wild_outside import mutated_outside, wild_outside
from harness.judge.checkers.second_opinion import compared
from harness.judge.second_judge import opinions

Json = dict[str, Any]
QUICK, EACH = 6, 15
BATCHES = [*range(QUICK), *(pytest.param(number, marks=pytest.mark.sweep) for number in range(QUICK, 90))]


def first_judge(lines: list[Json]) -> Judgement | None:
    """The judgement of the checkers; None: the history breaks a rule."""
    reader = open_text("".join(json.dumps(line) + "\n" for line in lines).encode())
    events = list(reader.outside_events())
    if reader.breaches or reader.outside is None:
        return None
    return judge_outside(reader.outside, events)


def differences(histories: Iterable[list[Json]]) -> tuple[int, list[str]]:
    """How many of the histories were judged, and those on which the judges differ."""
    judged, told = 0, []
    for lines in histories:
        judgement = first_judge(lines)
        if (judgement is not None) != keeps_the_rules(lines):
            told.append(f"the first {'refuses' if judgement is None else 'takes'} {json.dumps(lines)}")
        if judgement is None:
            continue
        judged += 1
        if differs := compared(judgement, lines, opinions(lines)).differs:
            told.append(f"{differs} {json.dumps(lines)}")
    return judged, told


@pytest.mark.parametrize("batch", BATCHES)
def test_two_judges_agree_on_random_histories(batch: int) -> None:
    judged, told = differences(wild_outside(seed) for seed in range(batch * EACH, (batch + 1) * EACH))

    assert (judged, told) == (EACH, [])


@pytest.mark.parametrize("batch", BATCHES)
def test_two_judges_agree_on_mutated_histories(batch: int) -> None:
    seeds = range(batch * EACH, (batch + 1) * EACH)
    judged, told = differences(mutated_outside(wild_outside(seed), seed) for seed in seeds)

    assert judged > 0
    assert told == []
