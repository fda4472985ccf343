"""The oracle's retries: the released operator's own behaviour, quirks included, as `sut-protocol.md` lists them."""

from __future__ import annotations

from typing import Any

import pytest

from harness.conform.oracle.tests.talk import Talk, call, emit, kinds

pytestmark = pytest.mark.oracle

FIXED = {"strategy": "fixed", "max_retries": 2, "delay_ms": 10, "on": ["empty", "error"]}
EXPONENTIAL = {"strategy": "exponential", "max_retries": 9, "initial_ms": 5, "max_ms": 18, "multiplier": 1.5}


def begin(talk: Talk, **config: Any) -> None:
    """Open with retries, and the first call of one record running."""
    talk.open(**{"profile": "flink", "retry": FIXED, "on_timeout": {"results": ["T"]}, **config})
    talk.element("a")


def test_a_call_is_made_at_most_once_more_than_it_may_be_retried(talk: Talk) -> None:
    """A73, A75: the last outcome stands, though the predicate names it."""
    begin(talk)

    assert talk.complete(1) == []
    assert talk.advance(9) == []
    assert talk.advance(10) == [call(2, "a", 2)]
    assert talk.fail(2) == []
    assert talk.advance(20) == [call(3, "a", 3)]
    assert kinds(talk.fail(3, "at last")) == ["failed"]


def test_an_outcome_that_the_predicates_do_not_name_is_final(talk: Talk) -> None:
    """A74."""
    begin(talk, retry={**FIXED, "on": ["error"]})

    assert talk.complete(1) == []
    assert talk.say("stats")[0] == {
        "ev": "stats",
        "queue": 0,
        "calls_running": 0,
        "timers": 0,
        "mails": 0,
        "now": 0,
    }


def test_a_second_outcome_in_the_backoff_is_dropped(talk: Talk) -> None:
    """A76."""
    begin(talk)
    talk.fail(1)

    assert talk.complete(1, "late") == []
    assert talk.advance(10) == [call(2, "a", 2)]


def test_a_second_outcome_of_an_attempt_counts_as_that_of_the_next(talk: Talk) -> None:
    """A76, the quirk."""
    begin(talk)
    talk.fail(1)
    talk.advance(10)

    assert talk.complete(1, "late") == [emit("late")]


def test_the_total_timeout_ends_the_backoff(talk: Talk) -> None:
    """A79, A80: one timeout for all attempts."""
    begin(talk, timeout_ms=15)
    talk.fail(1)
    talk.advance(10)
    talk.fail(2)

    assert talk.advance(100) == [{"ev": "timeout", "value": "a"}, emit("T")]


@pytest.mark.parametrize(("answer", "after"), [(["T"], "emit"), ([], "call")])
def test_at_exactly_the_timeout_the_handlers_outcome_is_judged(
    talk: Talk, answer: list[str], after: str
) -> None:
    """A80, the quirk: an empty answer is retried, and no timeout follows."""
    begin(talk, timeout_ms=100, on_timeout={"results": answer})

    events = [*talk.advance(100), *talk.advance(110)]

    assert kinds(events) == ["timeout", after]


def test_an_outcome_between_the_timers_mail_and_the_handlers_own_wins(talk: Talk) -> None:
    """A81, the quirk: T, M1, M2."""
    begin(talk, timeout_ms=100)
    talk.advance(100, hold=True)
    talk.complete(1, "A", hold=True)

    assert talk.advance(100) == [{"ev": "timeout", "value": "a"}, emit("A")]


def test_an_outcome_whose_mail_runs_before_the_timers_keeps_the_timeout_away(talk: Talk) -> None:
    """A43."""
    begin(talk, timeout_ms=100)
    talk.complete(1, "A", hold=True)
    talk.advance(100, hold=True)

    assert talk.advance(100) == [emit("A")]


def test_a_retry_timer_that_fell_due_with_the_timeout_calls_nobody(talk: Talk) -> None:
    """A posted timer cannot be cancelled, but finds the guard given back by the timeout."""
    begin(talk, timeout_ms=10)
    talk.fail(1)

    assert talk.advance(10) == [{"ev": "timeout", "value": "a"}, emit("T")]
    assert talk.advance(100) == []


def test_at_the_end_of_input_a_record_in_backoff_is_called_once_more_and_at_once(talk: Talk) -> None:
    """A85: and that outcome is final."""
    begin(talk, on_timeout="fail")
    talk.fail(1)

    assert talk.say("end_input") == [call(2, "a", 2)]
    assert talk.complete(2) == [{"ev": "ended"}]


def test_at_the_end_of_input_a_running_retry_gets_a_second_call(talk: Talk) -> None:
    """A86 (i), the quirk: the first outcome of either counts."""
    begin(talk)
    talk.fail(1)
    talk.advance(10)

    assert talk.say("end_input") == [call(3, "a", 3)]
    assert talk.complete(2, "A") == [emit("A"), {"ev": "ended"}]
    assert talk.complete(3, "B") == []


def test_at_the_end_of_input_a_record_that_timed_out_in_its_first_backoff_is_called(talk: Talk) -> None:
    """A86 (ii), the quirk: although it is finished."""
    begin(talk, timeout_ms=5)
    talk.fail(1)
    talk.advance(10)

    assert talk.say("end_input") == [call(2, "a", 2), {"ev": "ended"}]
    assert talk.complete(2, "A") == []
    assert talk.say("stats")[0]["calls_running"] == 0


def test_the_exponential_delay_is_one_for_all_records(talk: Talk) -> None:
    """A82, the quirk: 5, 7, 10, 15, capped at 18; a record's first failure sets it back for all."""
    begin(talk, retry={**EXPONENTIAL, "on": ["error"]}, timeout_ms=1000)
    instants, now, number = [], 0, 1
    for _ in range(5):
        talk.fail(number)
        before = now
        while not (events := talk.advance(now)):
            now += 1
        number = events[0]["call"]
        instants.append(now - before)

    assert instants == [5, 7, 10, 15, 18]

    talk.element("b")
    talk.fail(number + 1)
    talk.fail(number)

    assert talk.advance(now + 4) == []
    assert kinds(talk.advance(now + 5)) == ["call"]
    assert kinds(talk.advance(now + 7)) == ["call"]


def test_a_delay_that_shrinks_to_nothing_is_over_at_once(talk: Talk) -> None:
    """A timer that is due at the present instant fires in the command that registered it."""
    shrinking = {**EXPONENTIAL, "initial_ms": 1, "multiplier": 0.5, "on": ["error"]}
    begin(talk, retry=shrinking, timeout_ms=1000)
    talk.fail(1)
    talk.advance(1)

    assert talk.fail(2) == [call(3, "a", 3)]


def test_a_failure_under_retry_is_said_when_its_mail_runs(talk: Talk) -> None:
    begin(talk, retry={**FIXED, "on": ["empty"]})

    assert talk.fail(1, hold=True) == []
    assert kinds(talk.advance(0)) == ["failed"]


def test_a_posted_retry_timer_calls_for_a_record_that_a_late_outcome_has_finished(talk: Talk) -> None:
    """A76 and A81 together: mails T, M1, R, M2; R's mail cannot be cancelled, and looks at its guard only."""
    begin(talk, timeout_ms=8)
    talk.fail(1)
    talk.advance(8, hold=True)
    talk.complete(1, "late", hold=True)
    talk.advance(10, hold=True)

    assert talk.advance(10) == [{"ev": "timeout", "value": "a"}, call(2, "a", 2), emit("late")]
    assert talk.fail(2) == []
    assert talk.say("end_input") == [{"ev": "ended"}]
