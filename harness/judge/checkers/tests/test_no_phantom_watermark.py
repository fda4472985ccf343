"""V7: watermarks leave only if they came in, as often as they did, and nothing is visible after the final one."""

from __future__ import annotations

from typing import Any

import pytest

from harness.history.verdict import Outcome
from harness.judge.checkers.tests.small_histories import (
    commit,
    done,
    ended,
    event,
    found,
    history,
    left,
    owm,
    restart,
    settled,
    snap,
    start,
    took,
    verdict,
    wm,
)


def test_a_watermark_that_never_came_in_is_a_phantom() -> None:
    assert found("V7", history(start(), owm(6), ended())) == [("phantom-watermark", (2,))]


def test_a_watermark_that_comes_in_only_later_is_a_phantom() -> None:
    assert found("V7", history(start(), owm(6), wm(6, 0), ended())) == [("phantom-watermark", (2,))]


def test_each_phantom_is_told() -> None:
    lines = history(start(), owm(6), owm(6), ended())

    assert found("V7", lines) == [("phantom-watermark", (2,)), ("phantom-watermark", (3,))]


def test_a_restored_watermark_has_come_in_with_the_restore() -> None:
    parts = [start(), wm(5, 0), snap(1, 1, {"w": 5, "pos": 0}), done(1), restart(1, 1, {"w": 5, "pos": 0})]

    assert found("V7", history(parts, owm(5, a=2), ended(a=2))) == []


def test_what_another_attempt_took_in_does_not_count() -> None:
    parts = [start(), wm(5, 0), owm(5), snap(1, 1), done(1), restart(1, 1)]

    assert ("phantom-watermark", (9,)) in found("V7", history(parts, owm(5, a=2), ended(a=2)))


def test_a_phantom_counts_though_a_rollback_took_it_back() -> None:
    parts = [start(), wm(5, 0), owm(5), snap(1, 1), done(1), owm(7), restart(1, 1), ended(a=2)]

    assert found("V7", history(parts)) == [("phantom-watermark", (6,))]


def test_a_zombies_phantom_counts() -> None:
    lines = history(start(), start(a=2), owm(5), ended(a=2))

    assert found("V7", lines) == [("phantom-watermark", (3,))]


@pytest.mark.parametrize(("times", "surplus"), [(1, []), (2, []), (3, [(5, 6)]), (4, [(5, 6), (6, 7)])])
def test_a_value_is_visible_as_often_as_the_source_has_it(times: int, surplus: list[tuple[int, int]]) -> None:
    lines = history(start(), wm(5, 0), wm(5, 1), [owm(5)] * times, ended())

    assert found("V7", lines) == [("repeated-watermark", events) for events in surplus]


def test_a_value_that_the_source_has_nowhere_is_no_repetition() -> None:
    """Restored twice though it was never taken in: V10's and V11's, and none of V7's."""
    elements = [{"w": 5, "pos": 0}]
    parts = [start(), snap(1, 1, *elements), done(1), restart(1, 1, *elements), owm(5, a=2), owm(5, a=2)]

    assert found("V7", history(parts, ended(a=2))) == []


AGAIN = [start(), wm(5, 0), owm(5), event("kill"), start(a=2), wm(5, 0, a=2), owm(5, a=2), ended(a=2)]


@pytest.mark.parametrize(("sink", "repeated"), [("append", True), ("rollback", False)])
def test_a_replay_repeats_only_where_both_stay_visible(sink: str, *, repeated: bool) -> None:
    assert found("V7", history(AGAIN, sink=sink)) == [("repeated-watermark", (3, 7))] * repeated


@pytest.mark.parametrize("sink", ["atomic", "two-phase"])
def test_an_epoch_that_is_shown_twice_repeats_its_watermarks_each_told_once(sink: str) -> None:
    parts = [start(), wm(5, 0), owm(5), snap(1, 1), done(1), commit(1), commit(1), commit(1), ended()]

    assert found("V7", history(parts, sink=sink)) == [("repeated-watermark", (3, 6, 7))]


def test_after_the_final_watermark_nothing_is_visible() -> None:
    parts = [start(), took("a", 0), wm("end", 1), owm("end"), settled("a"), ended()]

    anomalies = verdict("V7", history(parts)).anomalies

    assert [(a.kind, a.id, a.events) for a in anomalies] == [("after-end", "a", (4, 7))]


def test_a_second_final_watermark_is_after_the_end_and_one_too_many() -> None:
    lines = history(start(), wm("end", 0), owm("end"), owm("end"), ended())

    assert sorted(found("V7", lines)) == [("after-end", (3, 4)), ("repeated-watermark", (3, 4))]


def test_the_order_that_a_reader_sees_decides_what_is_after_the_end() -> None:
    """Events 4 and 6 leave in one order and are shown in the other."""
    epochs = [start(), took("a", 0), wm("end", 1), left("a"), snap(1, 2), owm("end"), snap(2, 2)]

    assert found("V7", history(epochs, commit(1), commit(2), ended(), sink="atomic")) == []
    swapped = history(epochs, commit(2), commit(1), ended(), sink="atomic")
    assert found("V7", swapped) == [("after-end", (4, 6, 8, 9))]


def test_inside_an_attempt_whose_output_was_taken_back_something_may_follow_the_end() -> None:
    parts = [start(), took("a", 0), wm("end", 1), snap(1, 2, {"id": "a"}, {"w": "end", "pos": 1}), done(1)]
    wrong = [owm("end"), left("a")]
    right = [left("a", a=2), owm("end", a=2), ended(a=2)]

    lines = history(parts, wrong, restart(1, 2, {"id": "a"}, {"w": "end", "pos": 1}), right)

    assert found("V7", lines) == []


@pytest.mark.parametrize(
    ("parts", "outcome"),
    [([start()], Outcome.VACUOUS), ([start(), wm(5, 0)], Outcome.PASS), ([start(), owm(5)], Outcome.FAIL)],
)
def test_without_a_watermark_in_or_out_it_is_vacuous(parts: list[Any], outcome: Outcome) -> None:
    assert verdict("V7", history(parts)).outcome is outcome
