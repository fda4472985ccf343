"""Rounds: contenders take turns, the first round does not count, and ratios are of one round."""

from __future__ import annotations

import gc

import pytest

from tools.bench.rounds import Costs, take_turns


def test_contenders_take_turns_and_the_first_round_does_not_count() -> None:
    turns: list[str] = []

    def turn(name: str) -> float:
        turns.append(name)
        return float(len(turns))

    costs = take_turns({"a": lambda: turn("a"), "b": lambda: turn("b")}, rounds=2)

    assert turns == ["a", "b", "b", "a", "a", "b"]
    assert costs.of == {"a": [4.0, 5.0], "b": [3.0, 6.0]}


def test_a_ratio_is_the_median_of_the_rounds_with_its_spread() -> None:
    costs = Costs(of={"ours": [1.0, 9.0, 4.0], "theirs": [2.0, 3.0, 4.0]})

    ratio = costs.cost("ours", against="theirs")
    assert (ratio.median, ratio.low, ratio.high) == (1.0, 0.5, 3.0)
    assert costs.rate("ours", against="theirs").high == 2.0
    assert costs.rate_over("ours", 0.5).median == 0.5
    assert (costs.per_second("theirs"), costs.microseconds("theirs")) == (1 / 3, 3e6)


def test_the_collector_runs_in_every_turn_and_leaves_nothing_frozen() -> None:
    seen: list[tuple[bool, bool]] = []

    def turn() -> float:
        seen.append((gc.isenabled(), gc.get_freeze_count() > 0))
        return 1.0

    take_turns({"a": turn}, rounds=1)

    assert seen == [(True, True)] * 2
    assert gc.get_freeze_count() == 0


def test_a_contender_that_raises_ends_the_measure() -> None:
    with pytest.raises(ZeroDivisionError):
        take_turns({"a": lambda: 1 / 0})
