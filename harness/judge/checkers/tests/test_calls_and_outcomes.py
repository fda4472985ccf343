"""V15: calls one after the other, one outcome, in time."""

from __future__ import annotations

from typing import Any

import pytest

from harness.history.verdict import Outcome
from harness.judge.checkers.tests.small_histories import (
    Json,
    answered,
    called,
    done,
    ended,
    event,
    found,
    history,
    left,
    restart,
    settled,
    snap,
    stall,
    start,
    took,
    verdict,
)
from tools.cases import each

FAILED: Json = {"r": "fail", "final": False}


def tried(number: int, **fields: Any) -> Json:
    return called("a", **{"try": number}, **fields)


def operator(**fields: Any) -> Json:
    return {"operator": {"timeout_ms": 0, "max_tries": 3, **fields}}


def of_a(*parts: Any, **fields: Any) -> list[Json]:
    """A history in which record a is taken in, event 2, and then what is told."""
    return history(start(ms=0), took("a", 0, ms=0), *parts, **operator(**fields))


def test_a_record_settled_once_is_in_order() -> None:
    retried = [tried(1), answered("a", **FAILED), tried(2), answered("a", **{"try": 2}), left("a")]

    assert verdict("V15", of_a(retried, ended())).outcome is Outcome.PASS


def test_a_second_final_outcome_is_told_each_time() -> None:
    """A `dead` beside it is no second one."""
    thrice = of_a(tried(1), answered("a"), answered("a"), answered("a", r="fail"))

    assert found("V15", thrice) == [("two-outcomes", (4, 5)), ("two-outcomes", (4, 6))]
    assert found("V15", of_a(tried(1), answered("a", r="fail"), event("dead", id="a"))) == []


def test_no_call_follows_the_final_outcome() -> None:
    """An outcome that is not final allows another."""
    assert found("V15", of_a(tried(1), answered("a"), tried(2))) == [("call-after-final", (4, 5))]
    assert found("V15", of_a(tried(1), answered("a", **FAILED), tried(2))) == []


def test_a_call_waits_for_the_one_before() -> None:
    assert found("V15", of_a(tried(1), tried(2))) == [("concurrent-call", (3, 4))]


@pytest.mark.parametrize(
    ("tries", "convicted"),
    [([1, 2, 3], []), ([1, 2, 3, 4], [9]), ([2], [3]), ([1, 3], [5]), ([1, 1], [5])],
)
def test_tries_are_one_two_and_so_on_up_to_the_greatest_allowed(
    tries: list[int], convicted: list[int]
) -> None:
    parts = [[tried(number), answered("a", **{"try": number}, **FAILED)] for number in tries]

    found_ = found("V15", of_a(parts))

    assert [(kind, events[-1]) for kind, events in found_] == [("tries", n) for n in convicted]


def test_tries_begin_anew_after_a_restart() -> None:
    saved = [tried(1), answered("a", **FAILED), tried(2), snap(1, 1, {"id": "a"}), done(1)]

    lines = of_a(saved, restart(1, 1, {"id": "a"}), settled("a", a=2))

    assert found("V15", lines) == []


def test_an_output_leaves_after_its_outcome() -> None:
    assert found("V15", of_a(tried(1), left("a"), answered("a"))) == [("out-before-outcome", (4,))]
    assert found("V15", of_a(left("a"))) == [("out-before-outcome", (3,))]
    assert found("V15", of_a(tried(1), answered("a"), left("a"))) == []


def test_an_outcome_of_another_attempt_is_none_of_this_one() -> None:
    again = [start(a=2), took("a", 0, a=2), left("a", a=2)]

    assert found("V15", of_a(tried(1), answered("a"), again)) == [("out-before-outcome", (7,))]


def test_only_records_of_the_attempts_input_by_then_are_called_and_answered() -> None:
    early = history(start(), called("a"), answered("a"), took("a", 0), **operator())

    assert found("V15", early) == [("unknown-record", (2,)), ("unknown-record", (3,))]


def test_a_restored_record_is_of_the_input() -> None:
    saved = [tried(1), snap(1, 1, {"id": "a"}), done(1)]

    assert found("V15", of_a(saved, restart(1, 1), settled("a", a=2))) == [
        ("unknown-record", (9,)),
        ("unknown-record", (10,)),
    ]


def test_an_answer_is_of_a_try_that_was_called_unless_it_is_the_timeout() -> None:
    late = {"try": 2, "r": "timeout", "ms": 50}
    parts = [tried(1, ms=0), answered("a", **FAILED)]

    assert found("V15", of_a(parts, answered("a", **{"try": 2}))) == [("unknown-call", (5,))]
    assert found("V15", of_a(parts, answered("a", **late), timeout_ms=50)) == []


@pytest.mark.parametrize(("ms", "early"), [(99, False), (98.999, True), (100, False)])
def test_a_timeout_comes_at_most_a_millisecond_early(ms: float, *, early: bool) -> None:
    lines = of_a(tried(1, ms=0), answered("a", r="timeout", ms=ms), timeout_ms=100)

    assert found("V15", lines) == ([("early-timeout", (3, 4))] if early else [])


def test_the_time_runs_from_the_first_try() -> None:
    tries = [tried(1, ms=0), answered("a", **FAILED), tried(2, ms=60)]

    assert found("V15", of_a(tries, answered("a", **{"try": 2}, r="timeout", ms=100), timeout_ms=100)) == []


def test_without_a_timeout_none_may_come() -> None:
    assert found("V15", of_a(tried(1), answered("a", r="timeout", ms=900))) == [("early-timeout", (3, 4))]


SLACK = {"bounds": {"timeout_slack": 20}}


def late(*parts: Any, **header: Any) -> list[tuple[str, tuple[int, ...]]]:
    """A timeout of 100 ms with a slack of 20; the first call, event 3, at 0 ms."""
    told = operator(timeout_ms=100)
    return found(
        "V15", history(start(ms=0), took("a", 0, ms=0), tried(1, ms=0), *parts, **told, **SLACK, **header)
    )


LATE = [("late-timeout", (3,))]


@pytest.mark.parametrize(("ms", "expected"), [(120, []), (120.001, [("late-timeout", (3, 4))])])
def test_the_outcome_comes_within_timeout_and_slack(ms: float, expected: list[Any]) -> None:
    assert late(answered("a", ms=ms)) == expected


def test_a_dead_is_no_final_outcome() -> None:
    assert late(event("dead", id="a", ms=50), ended(), event("giveup", why="", ms=200)) == LATE


@pytest.mark.parametrize(("ms", "expected"), [(120, []), (120.001, LATE)])
def test_a_history_that_ends_before_the_limit_shows_nothing(ms: float, expected: list[Any]) -> None:
    assert late(event("giveup", why="", ms=ms)) == expected


@each("how", ["killed", "closed", "followed"])
@each(("ms", "expected"), [(120, []), (121, LATE)])
def test_an_attempt_whose_life_ended_by_then_owes_nothing(how: str, ms: int, expected: list[Any]) -> None:
    """Its last own event counts, but for the `kill`, which may be told late."""
    end = {
        "killed": [took("b", 1, ms=ms), event("kill", ms=900)],
        "closed": [event("close", ms=ms)],
        "followed": [start(a=2, ms=50), took("b", 1, ms=ms)],
    }[how]

    assert late(end, event("giveup", why="", ms=1000)) == expected


@pytest.mark.parametrize(("ms", "expected"), [(120, []), (121, LATE)])
def test_an_attempt_that_failed_first_owes_nothing(ms: int, expected: list[Any]) -> None:
    assert late(event("failed", error="e", ms=ms), event("giveup", why="", ms=1000)) == expected


@pytest.mark.parametrize(("begins", "expected"), [(120, []), (121, LATE)])
def test_a_fault_that_stalls_excuses_what_it_overlaps(begins: int, expected: list[Any]) -> None:
    assert late(stall("begin", ms=begins), stall("end", ms=900)) == expected


def test_a_fault_that_does_not_stall_excuses_nothing() -> None:
    assert late(stall("begin", ms=1, stalls=False), stall("end", ms=900)) == LATE


def test_without_a_timeout_an_outcome_may_take_for_ever() -> None:
    assert found("V15", of_a(tried(1, ms=0), answered("a", ms=10**6))) == []


def test_a_zombie_is_judged_like_any_other() -> None:
    zombie = [start(a=2), answered("a"), answered("a")]

    assert found("V15", of_a(tried(1), zombie)) == [("two-outcomes", (5, 6))]


def test_without_a_call_it_is_vacuous() -> None:
    assert (
        verdict("V15", history(start(), took("a", 0), event("dead", id="a"), ended())).outcome
        is Outcome.VACUOUS
    )
