"""Random legal histories are never convicted; each planted corruption is, by the invariant meant for it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.checkers.judge import Malformed, judge_reader
from harness.checkers.tests.blind_mutations import mutated
from harness.checkers.tests.legal_histories import legal_history
from harness.checkers.tests.naive_judge import Finding, Naive
from harness.checkers.tests.planted_defects import PLANTED, planted
from harness.choices import Choices
from harness.history.read import open_text
from harness.verdict import Judgement, Outcome

SINKS = ["rollback", "append", "atomic", "two-phase"]
SEEDS_EACH = 6
PLANTED_EACH = 4
AGREED_EACH = 2
TRIES_MAX = 200


def judged(lines: list[dict[str, Any]]) -> Judgement:
    judgement = judge_reader(open_text("\n".join(map(json.dumps, lines)).encode()))
    assert isinstance(judgement, Judgement), judgement
    return judgement


@pytest.mark.parametrize("mode", ["ordered", "unordered"])
@pytest.mark.parametrize("sink", SINKS)
def test_a_legal_history_is_never_convicted(sink: str, mode: str) -> None:
    for seed in range(SEEDS_EACH):
        judgement = judged(legal_history(seed, sink=sink, mode=mode))

        assert judgement.outcome in {Outcome.PASS, Outcome.VACUOUS}, (seed, judgement)
        assert all(verdict.outcome is not Outcome.UNKNOWN for verdict in judgement.invariants)


@pytest.mark.parametrize("sink", SINKS)
def test_a_legal_history_that_breaks_off_anywhere_is_never_convicted(sink: str) -> None:
    """Of V9 the rows come last, so a prefix without them is only unknown."""
    for seed in range(2):
        lines = legal_history(seed, sink=sink)
        for end in range(1, len(lines), max(1, len(lines) // 8)):
            judgement = judge_reader(open_text("\n".join(map(json.dumps, lines[:end])).encode()))

            if isinstance(judgement, Judgement):
                convicted = {verdict.invariant for verdict in judgement.convicted()}
                assert not convicted - {"V9"}, (seed, end, judgement.convicted())


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_defect_is_convicted_by_the_invariant_meant(name: str) -> None:
    invariant, kind, fixed, _ = PLANTED[name]
    shown = 0
    for seed in range(TRIES_MAX):
        lines = planted(name, legal_history(seed, **fixed), Choices(seed, name))
        if lines is None:
            continue
        verdict = next(v for v in judged(lines).invariants if v.invariant == invariant)

        assert kind in {anomaly.kind for anomaly in verdict.anomalies}, (seed, verdict)
        shown += 1
        if shown == PLANTED_EACH:
            return
    pytest.fail(f"only {shown} of {TRIES_MAX} histories had a place for it")


NAIVELY_JUDGED = {"V1", "V2", "V4", "V5", "V8", "V10", "V11"}


def findings(judgement: Judgement) -> set[Finding]:
    """In the words of the naive judge."""
    return {
        (
            verdict.invariant,
            anomaly.kind,
            anomaly.s,
            anomaly.w if anomaly.id is None else anomaly.id,
            anomaly.c,
        )
        for verdict in judgement.invariants
        for anomaly in verdict.anomalies
        if verdict.invariant in NAIVELY_JUDGED
    }


@pytest.mark.parametrize("batch", range(30))
def test_the_checkers_find_what_a_slow_and_literal_reading_finds(batch: int) -> None:
    agreed = 0
    for seed in range(batch * 100, batch * 100 + 100):
        lines = mutated(legal_history(seed), Choices(seed, "blind mutations"))
        lines[0]["operator"].pop("coalesces_watermarks", None)
        judgement = judge_reader(open_text("\n".join(map(json.dumps, lines)).encode()))
        if isinstance(judgement, Malformed):
            continue

        assert findings(judgement) == Naive(lines).findings(), seed
        agreed += 1
        if agreed == AGREED_EACH:
            return
    pytest.fail(f"only {agreed} of 100 mutated histories were well-formed")
