"""V3: results of one key keep the order of their records, whatever other keys do."""

from __future__ import annotations

from typing import Any

import pytest

from harness.history.verdict import Outcome
from harness.judge.checkers.tests.small_histories import (
    commit,
    ended,
    found,
    history,
    left,
    snap,
    start,
    took,
    verdict,
)
from tools.cases import each

UNORDERED = {"mode": "unordered", "per_key_order": True}
TWO = [start(), took("a", 0, key="k"), took("b", 1, key="k")]
SWAPPED = [left("b"), left("a")]


def test_a_result_behind_a_later_one_of_its_key_is_reordered() -> None:
    lines = history(TWO, SWAPPED, ended(), operator=UNORDERED)

    assert found("V3", lines) == [("key-reordered", (4, 5))]


@each(("one", "other"), [("k", "l"), (1, 1.0), (1, True), (None, 0), ({"a": 1}, {"a": 1.0}), ([1], 1)])
def test_two_keys_owe_each_other_no_order(one: Any, other: Any) -> None:
    taken = [start(), took("a", 0, key=one), took("b", 1, key=other)]

    assert verdict("V3", history(taken, SWAPPED, ended(), operator=UNORDERED)).outcome is Outcome.PASS


@pytest.mark.parametrize(("one", "other"), [({"a": 1, "b": 2}, {"b": 2, "a": 1}), (-0.0, 0.0), (None, None)])
def test_equal_keys_are_one_key_however_they_are_written(one: Any, other: Any) -> None:
    taken = [start(), took("a", 0, key=one), took("b", 1, key=other)]

    assert found("V3", history(taken, SWAPPED, ended())) == [("key-reordered", (4, 5))]


def test_a_record_without_a_key_is_compared_with_nothing() -> None:
    taken = [start(), took("a", 0), took("b", 1), took("c", 2, key=None)]

    assert verdict("V3", history(taken, SWAPPED, left("c"), ended())).outcome is Outcome.PASS


def test_results_of_one_record_may_leave_in_any_order() -> None:
    lines = history(TWO, left("a", j=1), left("a"), left("b"), ended())

    assert verdict("V3", lines).outcome is Outcome.PASS


def test_a_result_of_nobody_is_passed_over() -> None:
    assert found("V3", history(TWO, left("b"), left("ghost"), ended())) == []


def test_subtasks_are_judged_apart() -> None:
    both = [TWO, start(s=1), took("c", 0, s=1, key="k"), left("b"), left("c", s=1)]

    assert found("V3", history(both, ended(), ended(s=1))) == []


@pytest.mark.parametrize(("sink", "convicted"), [("atomic", True), ("append", False), ("rollback", False)])
def test_the_order_is_the_one_in_which_a_reader_sees_the_results(sink: str, *, convicted: bool) -> None:
    """O* follows the commits: the second epoch is shown first."""
    epochs = [TWO, left("a"), snap(1, 2), left("b"), snap(2, 2), commit(2), commit(1)]

    assert bool(found("V3", history(epochs, ended(), sink=sink))) is convicted


def test_an_epoch_that_is_shown_again_is_told_once_a_result() -> None:
    epochs = [TWO, left("a"), left("b"), snap(1, 2), commit(1), commit(1), commit(1)]

    assert found("V3", history(epochs, ended(), sink="atomic")) == [("key-reordered", (4, 5))]


@pytest.mark.parametrize(
    ("lines", "outcome"),
    [
        (history(TWO, SWAPPED, operator={"mode": "unordered"}), Outcome.NOT_CLAIMED),
        (history(start(), took("a", 0), left("a")), Outcome.NOT_CLAIMED),
        (history(TWO), Outcome.VACUOUS),
        (history(TWO, SWAPPED, sink="two-phase"), Outcome.VACUOUS),
        (history(TWO, left("a")), Outcome.PASS),
    ],
)
def test_it_applies_where_keys_are_ordered_and_results_are_seen(lines: list[Any], outcome: Outcome) -> None:
    assert verdict("V3", lines).outcome is outcome
