"""V12: each epoch is committed once, in order, not before its checkpoint allows it, and none is forgotten."""

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
    owm,
    restart,
    snap,
    start,
    verdict,
    wm,
)
from tools.cases import each

ONE = [start(), wm(1, 0), owm(1), snap(1, 1)]
"""Its snap is event 4."""
TWO = [*ONE, wm(2, 1), owm(2), snap(2, 2)]
"""Its second snap is event 7."""
BOTH = ["atomic", "two-phase"]


def told(*parts: Any, sink: str = "two-phase") -> list[tuple[str, tuple[int, ...]]]:
    return found("V12", history(*parts, sink=sink))


@pytest.mark.parametrize("sink", BOTH)
def test_each_further_commit_of_an_epoch_is_told(sink: str) -> None:
    parts = [ONE, done(1), commit(1), commit(1, a=1), commit(1)]

    assert told(parts, sink=sink) == [("committed-twice", (6, 7)), ("committed-twice", (6, 8))]


@pytest.mark.parametrize("sink", BOTH)
def test_a_commit_below_an_earlier_one_is_out_of_order(sink: str) -> None:
    parts = [TWO, done(1), done(2), commit(2), commit(1)]

    assert told(parts, sink=sink) == [("commit-order", (10, 11))]


def test_an_old_epoch_committed_again_is_twice_and_out_of_order() -> None:
    parts = [TWO, done(1), done(2), commit(1), commit(2), commit(1)]

    assert sorted(told(parts)) == [("commit-order", (11, 12)), ("committed-twice", (10, 12))]


def test_subtasks_commit_the_same_numbers_each_by_itself() -> None:
    other = [start(s=1), wm(1, 0, s=1), owm(1, s=1), snap(1, 1, s=1)]

    assert told(TWO, other, done(1), done(2), commit(1), commit(2), commit(1, s=1)) == []


@each("sink", BOTH)
@each(
    "parts",
    [
        [start(), commit(1)],
        [start(), commit(1), snap(1, 0)],
        [start(), snap(1, 0), commit(1, a=2), start(a=2)],
        [commit(1)],
    ],
    ids=["never snapped", "snapped only later", "snapped by another attempt", "of a subtask that never was"],
)
def test_a_commit_without_its_snap_is_of_an_unknown_epoch(parts: list[Any], sink: str) -> None:
    assert [kind for kind, _ in told(parts, sink=sink)] == ["unknown-epoch"]


def test_a_commit_needs_the_completion_of_its_checkpoint_before_it() -> None:
    assert told(ONE, commit(1), done(1)) == [("early-commit", (4, 5))]
    assert told(ONE, done(1), commit(1)) == []


def test_with_an_atomic_sink_no_commit_is_early() -> None:
    assert told(ONE, commit(1), sink="atomic") == []


def test_the_completion_of_a_later_checkpoint_allows_it_too() -> None:
    assert told(TWO, done(2), commit(1), commit(2)) == []


def test_the_completion_of_an_earlier_checkpoint_does_not() -> None:
    assert told(TWO, done(1), commit(1), commit(2)) == [("early-commit", (7, 10))]


def test_a_later_checkpoint_that_another_attempt_snapped_does_not_allow_it() -> None:
    """Attempt 1 snaps epoch 2 and dies; checkpoint 3 is of attempt 2 alone."""
    parts = [TWO, done(1), commit(1, a=1), restart(1, 1), snap(3, 1, a=2), done(3)]

    assert told(parts, commit(2, a=1)) == [("early-commit", (7, 15))]


def test_an_aborted_checkpoint_is_not_completed() -> None:
    assert told(ONE, event("abort", c=1), commit(1)) == [("early-commit", (4, 6))]


@pytest.mark.parametrize("sink", BOTH)
def test_an_epoch_that_holds_something_must_be_committed_by_the_end(sink: str) -> None:
    assert told(ONE, done(1), ended(), sink=sink) == [("never-committed", (3, 4))]


@pytest.mark.parametrize("sink", BOTH)
def test_before_the_end_an_epoch_may_still_be_committed(sink: str) -> None:
    assert told(ONE, done(1), sink=sink) == []


def test_an_epoch_without_an_emission_needs_no_commit() -> None:
    assert told(ONE, snap(2, 1), done(1), commit(1), done(2), ended()) == []


def test_what_left_after_the_last_snap_is_in_no_epoch() -> None:
    assert told(ONE, done(1), commit(1), wm(2, 1), owm(2), ended()) == []


def test_an_epoch_that_a_restart_left_behind_needs_no_commit() -> None:
    assert told(TWO, done(1), commit(1), restart(1, 1), wm(2, 1, a=2), ended(a=2)) == []


def test_the_epoch_that_was_restored_stands_in_the_chain() -> None:
    """Event 4 is the very snap that attempt 2 restores."""
    parts = [ONE, done(1), restart(1, 1), ended(a=2)]

    assert told(parts) == [("never-committed", (3, 4))]


def test_a_commit_in_the_name_of_another_attempt_commits_no_epoch_of_this_one() -> None:
    parts = [ONE, done(1), commit(1, a=2), start(1, 1, a=2), ended(a=2)]

    assert sorted(told(parts)) == [("never-committed", (3, 4)), ("unknown-epoch", (6,))]


def test_of_a_number_that_two_attempts_snapped_a_commit_without_a_name_is_the_newer_ones() -> None:
    again = [restart(1, 1), wm(2, 1, a=2), owm(2, a=2), snap(2, 2, a=2)]
    parts = [TWO, done(1), commit(1), again, done(2)]

    assert told(parts, commit(2), ended(a=2)) == []
    assert told(parts, commit(2, a=1), ended(a=2)) == [("never-committed", (14, 15))]


@each(
    ("parts", "sink", "outcome"),
    [
        ([ONE, commit(1)], "append", Outcome.NOT_CLAIMED),
        ([ONE, commit(1)], "rollback", Outcome.NOT_CLAIMED),
        ([ONE], "two-phase", Outcome.VACUOUS),
        ([ONE, done(1)], "two-phase", Outcome.PASS),
        ([ONE, done(1)], "atomic", Outcome.VACUOUS),
        ([ONE, commit(1)], "atomic", Outcome.PASS),
        ([ONE, ended()], "two-phase", Outcome.FAIL),
    ],
)
def test_it_applies_to_sinks_with_epochs_and_needs_one(parts: list[Any], sink: str, outcome: Outcome) -> None:
    assert verdict("V12", history(*parts, sink=sink)).outcome is outcome
