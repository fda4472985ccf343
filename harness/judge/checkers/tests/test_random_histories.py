"""Random legal histories are never convicted; each planted corruption is, by the invariant meant for it.

What a blind corruption does, the second judge knows (`test_two_judges`).
"""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest

from harness.history.event_fields import claims_of, well_formed
from harness.history.header import Header, parse_header
from harness.history.read import open_text
from harness.history.verdict import Judgement, Outcome
from harness.judge.checkers.judge import judge, judge_reader
from harness.judge.checkers.tests import planted_breaches, planted_misdeeds, planted_rows, rescaled_histories
from harness.judge.checkers.tests.dressed_histories import dressed_history
from harness.judge.checkers.tests.legal_histories import legal_history
from harness.judge.checkers.tests.planted_defects import PLANTED, planted
from harness.judge.checkers.tests.retried_histories import legal_retries
from harness.judge.checkers.tests.test_catalogue import CLASSES
from harness.system.choices import Choices

SINKS = ["rollback", "append", "atomic", "two-phase"]
SEEDS_EACH = 6
PLANTED_OFTEN = 8
LEGAL = 20_000
LEGAL_FOR_LONG = 100_000
LEGAL_FROM = 1_000_000
CHUNK = 500
TRIES_MAX = 200


def judged(lines: list[dict[str, Any]]) -> Judgement:
    judgement = judge_reader(open_text("\n".join(map(json.dumps, lines)).encode()))
    assert isinstance(judgement, Judgement), judgement
    return judgement


def assert_acquitted(lines: list[dict[str, Any]]) -> None:
    judgement = judged(lines)
    assert judgement.outcome in {Outcome.PASS, Outcome.VACUOUS}, judgement
    assert all(verdict.outcome is not Outcome.UNKNOWN for verdict in judgement.invariants)


@pytest.mark.parametrize("mode", ["ordered", "unordered"])
@pytest.mark.parametrize("sink", SINKS)
def test_a_legal_history_is_never_convicted(sink: str, mode: str) -> None:
    for seed in range(SEEDS_EACH):
        assert_acquitted(dressed_history(seed, sink=sink, mode=mode))


@pytest.mark.parametrize("batch", range(4))
def test_retries_as_the_strategy_says_are_never_convicted_trust4(batch: int) -> None:
    for seed in range(batch * SEEDS_EACH, (batch + 1) * SEEDS_EACH):
        retries = next(v for v in judged(legal_retries(seed)).invariants if v.invariant == "V15")

        assert retries.outcome is Outcome.PASS, (seed, retries)


def first_not_acquitted(seeds: range) -> int | None:
    """As a user's file is judged: by the screen, and by the exact checkers where it suspects."""
    for seed in seeds:
        first, *lines = dressed_history(seed)
        header = parse_header(first)
        assert isinstance(header, Header), header
        events = [well_formed(line, claims_of(header)).event for line in lines]
        assert None not in events
        if judge(header, [event for event in events if event]).outcome not in {Outcome.PASS, Outcome.VACUOUS}:
            return seed
    return None


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "count",
    [
        pytest.param(LEGAL, marks=pytest.mark.sweep),
        pytest.param(LEGAL_FOR_LONG, marks=pytest.mark.soak),
    ],
)
def test_so_many_legal_histories_are_never_convicted(count: int) -> None:
    chunks = [range(begin, begin + CHUNK) for begin in range(LEGAL_FROM, LEGAL_FROM + count, CHUNK)]
    with ProcessPoolExecutor(mp_context=get_context("fork")) as pool:
        convicted = [seed for seed in pool.map(first_not_acquitted, chunks) if seed is not None]

    assert not convicted


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("sink", SINKS)
def test_a_legal_history_that_breaks_off_anywhere_is_never_convicted(sink: str, seed: int) -> None:
    """Of V9 the rows come last, so a prefix without them is only unknown."""
    lines = dressed_history(seed, sink=sink)
    for end in range(1, len(lines), max(1, len(lines) // 8)):
        judgement = judge_reader(open_text("\n".join(map(json.dumps, lines[:end])).encode()))

        if isinstance(judgement, Judgement):
            convicted = {verdict.invariant for verdict in judgement.convicted()}
            assert not convicted - {"V9"}, (end, judgement.convicted())


def test_each_class_of_the_page_has_a_corruption_that_it_is_meant_for() -> None:
    meant = {(invariant, kind) for invariant, kind, _, _ in PLANTED.values()}

    assert meant == {(invariant, kind) for invariant, kinds in CLASSES.items() for kind in kinds}
    assert {
        planted_breaches.__name__,
        planted_misdeeds.__name__,
        planted_rows.__name__,
        rescaled_histories.__name__,
    } < {f.__module__ for *_, f in PLANTED.values()}


@pytest.mark.parametrize("times", [2, pytest.param(PLANTED_OFTEN, marks=pytest.mark.sweep)])
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_defect_is_convicted_by_the_invariant_meant(name: str, times: int) -> None:
    invariant, kind, fixed, _ = PLANTED[name]
    shown = 0
    for seed in range(TRIES_MAX):
        lines = planted(name, legal_history(seed, **fixed), Choices(seed, name))
        if lines is None:
            continue
        verdict = next(v for v in judged(lines).invariants if v.invariant == invariant)

        assert kind in {anomaly.kind for anomaly in verdict.anomalies}, (seed, verdict)
        shown += 1
        if shown == times:
            return
    pytest.fail(f"only {shown} of {TRIES_MAX} histories had a place for it")
