"""Two judges that share no code find the same in histories seen from outside.

On random histories and on mutated ones: for each invariant the same outcome and the same anomalies (class, id, j, tx,
start), each once, and one verdict. Both refuse the same ones of the mutated histories.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from harness.history.read import open_text
from harness.history.values import identity
from harness.history.verdict import Judgement, Outcome
from harness.judge.checkers.outside.judge import judge_outside
from harness.judge.checkers.outside.tests.naive_outside import opinions_on, verdict_on
from harness.judge.checkers.outside.tests.naive_rules import keeps_the_rules
from harness.judge.checkers.outside.tests.wild_outside import mutated_outside, wild_outside

Json = dict[str, Any]
QUICK, EACH = 6, 15
BATCHES = [*range(QUICK), *(pytest.param(number, marks=pytest.mark.sweep) for number in range(QUICK, 90))]
CLASSES = {
    "reordered", "key-reordered", "phantom", "duplicate", "wrong-value", "deleted", "lost", "changed-again",
    "zombie-effect", "stuck", "swallowed", "row-foreign", "row-doubled", "double-routed", "unexplained-failure",
}  # fmt: skip


def first_judge(lines: list[Json]) -> Judgement | None:
    """The judgement of the checkers; None: the history breaks a rule."""
    reader = open_text("".join(json.dumps(line) + "\n" for line in lines).encode())
    events = list(reader.outside_events())
    if reader.breaches or reader.outside is None:
        return None
    return judge_outside(reader.outside, events)


def found_by_first(judgement: Judgement) -> dict[str, tuple[str, Counter[Any]]]:
    """Its outcomes and anomalies, in the form of the second judge."""
    return {
        verdict.invariant: (
            str(verdict.outcome),
            Counter((one.kind, named(one.as_json()), one.j, one.tx, one.start) for one in verdict.anomalies),
        )
        for verdict in judgement.invariants
        if verdict.outcome is not Outcome.NOT_CLAIMED
    }


def named(anomaly: Json) -> Any:
    return identity(anomaly.get("id"))


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
        one, other = found_by_first(judgement), opinions_on(lines)
        if one != other or str(judgement.outcome) != verdict_on(lines, other):
            apart = {name: (one.get(name), other.get(name)) for name in {**one, **other}}
            apart = {name: pair for name, pair in apart.items() if pair[0] != pair[1]}
            told.append(f"{apart} {judgement.outcome} {json.dumps(lines)}")
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
