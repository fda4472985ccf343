"""Random legal histories are never convicted; mutated ones are in `test_two_judges`."""

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
from harness.judge.checkers.tests.dressed_histories import dressed_history
from harness.judge.checkers.tests.retried_histories import legal_retries
from tools.cases import each, in_sweep_after

SINKS = ["rollback", "append", "atomic", "two-phase"]
SEEDS_EACH = 3
LEGAL = 20_000
LEGAL_FOR_LONG = 100_000
LEGAL_FROM = 1_000_000
CHUNK = 500


def judged(lines: list[dict[str, Any]]) -> Judgement:
    judgement = judge_reader(open_text("\n".join(map(json.dumps, lines)).encode()))
    assert isinstance(judgement, Judgement), judgement
    return judgement


def assert_acquitted(lines: list[dict[str, Any]]) -> None:
    judgement = judged(lines)
    assert judgement.outcome in {Outcome.PASS, Outcome.VACUOUS}, judgement
    assert all(verdict.outcome is not Outcome.UNKNOWN for verdict in judgement.invariants)


@each("mode", ["ordered", "unordered"])
@each("sink", SINKS)
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


@pytest.mark.parametrize("seed", in_sweep_after(1, range(3)))
@each("sink", SINKS)
def test_a_legal_history_that_breaks_off_anywhere_is_never_convicted(sink: str, seed: int) -> None:
    """Of V9 the rows come last, so a prefix without them is only unknown."""
    lines = dressed_history(seed, sink=sink)
    for end in range(1, len(lines), max(1, len(lines) // 8)):
        judgement = judge_reader(open_text("\n".join(map(json.dumps, lines[:end])).encode()))

        if isinstance(judgement, Judgement):
            convicted = {verdict.invariant for verdict in judgement.convicted()}
            assert not convicted - {"V9"}, (end, judgement.convicted())
