"""The oracle's clock and its failures: timers fall due instant by instant, and the task fails once."""

from __future__ import annotations

from typing import Any

import pytest

from harness.conform.oracle.tests.talk import Talk, call, emit, kinds

pytestmark = pytest.mark.oracle


def test_the_clock_steps_and_each_timeout_happens_at_its_instant(talk: Talk) -> None:
    talk.open(timeout_ms=100, on_timeout={"results": ["t1", "t2"]})
    talk.element("a", 1)
    talk.advance(30)
    talk.element("b", 2)

    assert talk.advance(99) == []
    assert talk.advance(100) == [{"ev": "timeout", "value": "a"}, emit("t1", 1), emit("t2", 1)]
    assert kinds(talk.advance(500)) == ["timeout", "emit", "emit"]
    assert talk.say("stats")[0]["timers"] == 0


def test_no_timeout_means_no_timer(talk: Talk) -> None:
    """A3."""
    talk.open(timeout_ms=0)
    talk.element("a")

    assert talk.say("stats")[0]["timers"] == 0
    assert talk.advance(10**15) == []


def test_a_timeout_beyond_the_last_instant_never_comes(talk: Talk) -> None:
    talk.open(now=2**62, timeout_ms=2**63 - 1)
    talk.element("a")

    assert talk.advance(2**63 - 2) == []


def test_time_goes_on_from_where_the_clock_stands(talk: Talk) -> None:
    talk.open(now=-40)
    talk.advance(10)

    assert talk.error("advance", to=9) == "bad-argument"
    assert talk.advance(10) == []


def test_a_completion_that_has_arrived_keeps_the_timeout_away(talk: Talk) -> None:
    """A43: even though its mail waits when the timer falls due."""
    talk.open(timeout_ms=100)
    talk.element("a")
    talk.complete(1, "A", hold=True)

    assert talk.advance(100, hold=True) == []
    assert talk.advance(100) == [emit("A")]


def test_a_timer_that_fell_due_first_wins_over_the_completion(talk: Talk) -> None:
    """A36 for the other order: the flag is taken by the completion at once, even behind the timer's mail."""
    talk.open(timeout_ms=100, on_timeout={"results": ["T"]})
    talk.element("a")
    talk.advance(100, hold=True)
    talk.complete(1, "A", hold=True)

    assert talk.advance(100) == [emit("A")]


def test_a_handler_that_answers_nothing_leaves_the_slot_taken(talk: Talk) -> None:
    """A46."""
    talk.open(timeout_ms=100, on_timeout="nothing")
    talk.element("a")
    assert talk.advance(1000) == [{"ev": "timeout", "value": "a"}]

    assert talk.say("end_input") == []
    assert talk.say("stats")[0]["queue"] == 1
    assert talk.complete(1, "A") == [emit("A"), {"ev": "ended"}]


@pytest.mark.parametrize(
    ("config", "error", "events"),
    [
        ({}, "timeout", ["timeout", "failed"]),
        ({"on_timeout": {"throw": "ouch"}}, "callback-error", ["timeout", "failed"]),
    ],
)
def test_a_timeout_may_fail_the_task(
    talk: Talk, config: dict[str, Any], error: str, events: list[str]
) -> None:
    """A44, A47."""
    talk.open(timeout_ms=100, **config)
    talk.element("a")

    happened = talk.advance(100)

    assert kinds(happened) == events
    assert happened[-1]["error"] == error
    assert "ouch" in happened[-1]["message"] or error == "timeout"


def test_an_invocation_that_raises_is_written_and_fails_the_task(talk: Talk) -> None:
    """A34. Values are compared as JSON: 1 and 1.0 are one number, true is none."""
    talk.open(invoke_throws=[1.0, {"k": [2]}])
    assert talk.element(True) == [call(1, True)]
    assert talk.element("1") == [call(2, "1")]

    events = talk.element(1)

    assert kinds(events) == ["call", "failed"]
    assert events[1]["error"] == "callback-error"


def test_an_object_among_those_that_raise_is_compared_as_json(talk: Talk) -> None:
    talk.open(invoke_throws=[{"k": [2], "l": None}])

    assert kinds(talk.element({"l": None, "k": [2.0]})) == ["call", "failed"]


def test_after_a_failure_only_stats_and_close_are_heard(talk: Talk) -> None:
    """A41: the failure is said once, and no mail runs any more."""
    talk.open()
    talk.element("a")
    talk.element("b")
    talk.complete(2, "B", hold=True)

    events = talk.fail(1, "the service is down")

    assert kinds(events) == ["failed"]
    assert events[0]["error"] == "user-error"
    assert "the service is down" in events[0]["message"]
    for cmd, fields in (
        ("element", {"value": 1, "ts": None}),
        ("complete", {"call": 2, "results": []}),
        ("advance", {"to": 100}),
        ("snapshot", {"id": 1}),
        ("end_input", {}),
        ("notify", {"id": 1, "outcome": "abort"}),
    ):
        assert talk.error(cmd, **fields) == "bad-state"
    assert kinds(talk.say("stats")) == ["stats"]
    assert kinds(talk.say("close")) == ["closed"]


def test_a_failure_while_the_operator_waits_ends_the_wait(talk: Talk) -> None:
    talk.open(capacity=1)
    talk.element("a")
    talk.element("b")
    talk.say("snapshot", id=1)

    assert kinds(talk.fail(1)) == ["failed"]
    assert kinds(talk.say("close")) == ["closed"]


def test_a_failure_while_draining_ends_the_drain(talk: Talk) -> None:
    talk.open()
    talk.element("a")
    talk.say("end_input")

    assert kinds(talk.advance(100)) == ["timeout", "failed"]
    assert kinds(talk.say("close")) == ["closed"]
