"""A history in shares is judged as the whole is; what shares cannot decide is left to the whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.history.event import Event
from harness.history.header import Header
from harness.history.read import NeedsExactReader, open_history, open_text, read_whole
from harness.history.verdict import Judgement, Outcome
from harness.judge.checkers.invariant import Invariant
from harness.judge.checkers.judge import Malformed, judge
from harness.judge.checkers.registry import CHECKERS
from harness.judge.checkers.screen.totals import Distinct
from harness.judge.checkers.shares.fold import judge_shares
from harness.judge.checkers.shares.tests.split_history import SplitHistory
from harness.judge.checkers.tests.blind_mutations import mutated
from harness.judge.checkers.tests.legal_histories import legal_history
from harness.judge.checkers.tests.small_histories import text
from harness.judge.checkers.tests.test_two_judges import OF_FORM_1_1, mutant, waiting, zigzag
from harness.judge.checkers.tests.wild_histories import wild_history
from harness.system.choices import Choices
from tools.cases import each

Json = dict[str, Any]
CATALOGUE = Path(__file__).parents[2] / "tests" / "catalogue"
FOLDERS = sorted(path for path in CATALOGUE.iterdir() if path.is_dir())
SINKS = ["rollback", "append", "atomic", "two-phase"]


def legal(seed: int) -> list[Json]:
    mode = ["ordered", "unordered"][seed // 4 % 2]
    return legal_history(seed, sink=SINKS[seed % 4], mode=mode)


KINDS: dict[str, Callable[[int], list[Json]]] = {
    **OF_FORM_1_1,
    "wild": wild_history,
    "mutant": lambda seed: mutant(seed, 1 + seed % 3),
    "zigzag": zigzag,
    "waiting": waiting,
    "legal": legal,
    "mutated legal": lambda seed: mutated(legal(seed), Choices(seed, "blind mutations")),
}
QUICK, SWEPT = 2, 480
"""Histories of each kind; at tier sweep more than 10,000 in all."""


class Asked:
    """The whole history, which remembers for which invariants it was asked. Mutable."""

    def __init__(self, header: Header, events: Sequence[Event]) -> None:
        self._history = header, events
        self.names: list[str] = []

    def __call__(self, checkers: Sequence[Invariant]) -> Judgement | Malformed:
        self.names += [checker.name for checker in checkers]
        return judge(*self._history, checkers=checkers)


def judged_in_shares(header: Header, events: Sequence[Event]) -> tuple[Judgement | Malformed, list[str]]:
    asked = Asked(header, events)
    return judge_shares(SplitHistory(header, events, batch=7), asked, checkers=CHECKERS), asked.names


def refused_by_shares(lines: list[Json], folder: Path) -> bool:
    """Whether a malformed history is left to the whole; one with a malformed line cannot be read into shares at all."""
    file = folder / "malformed.jsonl"
    file.write_bytes(text(lines))
    history = open_history(file)
    try:
        events = [event for batch in history.batches() for event in batch]
    except NeedsExactReader:
        return True
    assert history.header is not None
    answers = Malformed(breaches=())
    return judge_shares(SplitHistory(history.header, events), lambda _: answers, checkers=CHECKERS) is answers


@pytest.mark.sweep
@each("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_catalogue_is_judged_alike_in_shares_and_whole(folder: Path) -> None:
    for path in sorted(folder.glob("*.jsonl")):
        header, events = read_whole(path)

        judged, _ = judged_in_shares(header, events)

        assert judged == judge(header, events), path


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "seeds", [range(QUICK), pytest.param(range(QUICK, SWEPT), marks=pytest.mark.sweep)], ids=["few", "many"]
)
def test_what_is_corrupted_is_judged_alike_in_shares_and_whole(
    kind: str, seeds: range, tmp_path: Path
) -> None:
    for seed in seeds:
        lines = KINDS[kind](seed)
        reader = open_text(text(lines))
        events = list(reader.events())
        if reader.breaches or reader.header is None:
            assert refused_by_shares(lines, tmp_path), seed
            continue

        judged, _ = judged_in_shares(reader.header, events)

        assert judged == judge(reader.header, events), seed


def test_the_rows_of_one_subtask_make_the_claim_of_effects_for_the_records_of_all() -> None:
    """The histories with which this was found: one subtask has rows, the other one lacks them."""
    for seed in (198, 360):
        reader = open_text(text(wild_history(seed)))
        events = list(reader.events())
        assert reader.header is not None

        judged, asked = judged_in_shares(reader.header, events)

        assert judged == judge(reader.header, events)
        assert "V9" in asked


def test_a_regular_history_of_many_subtasks_is_judged_in_shares_alone() -> None:
    seen = 0
    for seed in range(12):
        reader = open_text(text(legal(seed)))
        events = list(reader.events())
        assert reader.header is not None

        judged, asked = judged_in_shares(reader.header, events)

        assert isinstance(judged, Judgement)
        assert not asked, seed
        seen += judged.outcome is Outcome.PASS and judged.accounting["subtasks"] > 1
    assert seen > 2


def test_a_value_in_two_shares_is_seen_whatever_form_each_keeps_it_in() -> None:
    ranged, single, other = Distinct(), Distinct(), Distinct()
    ranged.pending.extend(range(1000))
    single.pending.extend([5000, 999])
    other.pending.extend(["a", 5001])
    merged = Distinct()

    merged.merge(ranged)
    merged.merge(other)
    before = merged.all_different()
    merged.merge(single)

    assert before
    assert not merged.all_different()
