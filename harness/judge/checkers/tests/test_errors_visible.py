"""V20: what failed for good is told, once."""

from __future__ import annotations

from typing import Any

import pytest

from harness.history.verdict import Outcome
from harness.judge.checkers.tests.small_histories import (
    Json,
    answered,
    called,
    commit,
    done,
    ended,
    event,
    found,
    history,
    settled,
    snap,
    start,
    took,
    verdict,
)

DEAD = event("dead", id="a")
FAILS = event("failed", error="e")
KILL = event("kill")


def failing(*parts: Any, res: Json | None = None, **header: Any) -> list[Json]:
    """A history in which record a fails for good, event 4, and then what is told."""
    failure = answered("a", r="fail", error="why") if res is None else res
    told = [start(), took("a", 0), called("a"), failure]
    return history(told, *parts, operator={"timeout_ms": 1}, **header)


SWALLOWED = [("swallowed", (4,))]


def test_a_failure_that_nobody_is_told_is_swallowed() -> None:
    assert found("V20", failing(ended())) == SWALLOWED


@pytest.mark.parametrize("told", [DEAD, FAILS, KILL, event("failed", error="e", id="another")])
def test_a_failure_is_told_by_a_dead_letter_or_the_attempts_end(told: Json) -> None:
    over = [] if told is KILL else [event("close")]

    assert verdict("V20", failing(told, over)).outcome is Outcome.PASS


def test_another_records_dead_letter_tells_nothing() -> None:
    assert found("V20", failing(event("dead", id="b"), ended())) == SWALLOWED


def test_what_was_told_before_the_failure_does_not_count() -> None:
    lines = history(start(), took("a", 0), called("a"), DEAD, answered("a", r="fail"), ended())

    assert found("V20", lines) == [("swallowed", (5,))]


@pytest.mark.parametrize(
    "over", [event("end"), event("snap", c=1, pos=1, elements=[]), [snap(1, 1), event("abort", c=1)]]
)
def test_it_is_unknown_while_it_may_still_be_told(over: Any) -> None:
    assert verdict("V20", failing(over)).outcome is Outcome.UNKNOWN


@pytest.mark.parametrize("over", [ended(), event("close"), [snap(1, 1), done(1)], start(a=2)])
def test_it_is_swallowed_once_the_attempt_is_over_or_a_completed_snap_leaves_it_behind(over: Any) -> None:
    assert found("V20", failing(over)) == SWALLOWED


def test_a_kill_excuses_only_before_the_next_completed_snap() -> None:
    assert found("V20", failing(snap(1, 1), done(1), KILL)) == SWALLOWED
    assert found("V20", failing(snap(1, 1), KILL)) == []
    assert found("V20", failing(KILL, start(a=2))) == []


def test_a_close_behind_a_completed_snap_that_holds_the_record_hands_it_to_the_next_attempt() -> None:
    """A batch ends so; without the snap, or at the end of the input, nobody calls the record again."""
    holds = [snap(1, 1, {"id": "a"}), done(1)]

    assert found("V20", failing(holds, event("close"))) == []
    assert found("V20", failing(holds, event("close"), start(a=2))) == []
    assert found("V20", failing(holds, snap(2, 1), done(2), event("close"))) == SWALLOWED
    assert found("V20", failing(snap(1, 1, {"id": "a"}), event("close"))) == SWALLOWED
    assert found("V20", failing(event("close"), holds)) == SWALLOWED
    assert found("V20", failing(holds, ended(), event("close"))) == SWALLOWED


def test_a_snap_completed_after_the_kill_counts_as_completed() -> None:
    assert found("V20", failing(snap(1, 1), KILL, done(1))) == SWALLOWED


def test_with_an_atomic_sink_the_commit_completes() -> None:
    assert found("V20", failing(snap(1, 1), commit(1), KILL, sink="atomic")) == SWALLOWED
    assert found("V20", failing(snap(1, 1), done(1), KILL, sink="atomic")) == []


def test_a_timeout_with_an_error_is_a_failure_and_one_with_an_answer_is_none() -> None:
    with_error = {name: v for name, v in answered("a", r="timeout", error=None).items() if name != "v"}

    assert found("V20", failing(ended(), res=with_error)) == SWALLOWED
    assert verdict("V20", failing(ended(), res=answered("a", r="timeout"))).outcome is Outcome.VACUOUS


def test_a_failure_that_is_tried_again_is_none() -> None:
    assert verdict("V20", failing(res=answered("a", r="fail", final=False))).outcome is Outcome.VACUOUS


def test_a_dead_letter_and_a_failed_task_for_one_record_are_one_too_many() -> None:
    """Of another record, or in another attempt, they are not."""
    both = failing(DEAD, event("failed", error="e", id="a"))
    reverse = failing(event("failed", error="e", id="a"), DEAD)
    later = failing(event("failed", error="e", id="a"), KILL, start(a=2), event("dead", id="a", a=2))

    assert found("V20", both) == found("V20", reverse) == [("double-routed", (5, 6))]
    assert found("V20", failing(DEAD, event("failed", error="e", id="b"))) == []
    assert found("V20", failing(DEAD, FAILS)) == []
    assert found("V20", later) == []


def test_a_zombie_that_swallows_is_convicted() -> None:
    parts = [start(), took("a", 0), called("a"), start(a=2), answered("a", r="fail")]

    assert found("V20", history(parts)) == [("swallowed", (5,))]


def test_without_a_failure_it_is_vacuous() -> None:
    assert verdict("V20", history(start(), took("a", 0), settled("a"), ended())).outcome is Outcome.VACUOUS
