"""V19: every call has a nonce of its own, and every answer the nonce of its call."""

from __future__ import annotations

from typing import Any

import pytest

from harness.history.verdict import Outcome
from harness.judge.checkers.tests.small_histories import (
    Json,
    answered,
    called,
    event,
    found,
    history,
    start,
    took,
    verdict,
)
from tools.cases import each

TAKEN = [start(), took("a", 0), took("b", 1)]
"""Events 1 to 3."""
SECOND: Json = {"try": 2}


def test_an_answer_with_another_calls_nonce_is_foreign() -> None:
    calls = [called("a", nonce=1), called("b", nonce=2)]

    assert found("V19", history(TAKEN, calls, answered("a", nonce=2))) == [("foreign-response", (4, 5, 6))]


def test_an_answer_with_a_nonce_that_nobody_sent_is_foreign() -> None:
    assert found("V19", history(TAKEN, called("a", nonce=1), answered("a", nonce=9))) == [
        ("foreign-response", (4, 5))
    ]


def test_the_answer_to_an_earlier_try_is_foreign() -> None:
    """As after a cancellation: the second try gets what the first one had asked for."""
    tries = [called("a", nonce=1), called("a", nonce=2, **SECOND), answered("a", nonce=1, **SECOND)]

    assert found("V19", history(TAKEN, tries)) == [("foreign-response", (4, 5, 6))]


def test_the_call_of_another_attempt_is_another_call() -> None:
    parts = [start(), took("a", 0), called("a", nonce=1), start(a=2), took("a", 0, a=2)]
    again = [called("a", nonce=2, a=2), answered("a", nonce=1, a=2)]

    assert found("V19", history(parts, again)) == [("foreign-response", (3, 6, 7))]


@each("sent", [1, "x", None, [1, {"a": 2}], True, 1.5])
def test_any_json_is_a_nonce(sent: Any) -> None:
    parts = [TAKEN, called("a", nonce=sent)]

    assert found("V19", history(parts, answered("a", nonce=sent))) == []
    assert [kind for kind, _ in found("V19", history(parts, answered("a", nonce="other")))]
    assert found("V19", history(parts, called("b", nonce=sent))) == [("nonce-reused", (4, 5))]


@pytest.mark.parametrize(("sent", "echoed"), [(1, 1.0), (1, True), (1, "1"), (0, None), ([], {})])
def test_nonces_that_only_look_alike_are_two(sent: Any, echoed: Any) -> None:
    assert found("V19", history(TAKEN, called("a", nonce=sent), called("b", nonce=echoed))) == []
    lines = history(TAKEN, called("a", nonce=sent), answered("a", nonce=echoed))
    assert found("V19", lines) == [("foreign-response", (4, 5))]


def test_each_further_call_with_a_nonce_is_told_with_the_first() -> None:
    """Over attempts and subtasks: a nonce is for one call in the whole history."""
    elsewhere = [start(s=1), took("c", 0, s=1), called("c", s=1, nonce=1)]
    parts = [TAKEN, called("a", nonce=1), called("a", nonce=1, **SECOND), elsewhere, start(a=2)]

    anomalies = verdict("V19", history(parts, called("a", nonce=1, a=2))).anomalies

    assert [(a.kind, a.s, a.id, a.events) for a in anomalies] == [
        ("nonce-reused", 0, "a", (4, 5)),
        ("nonce-reused", 1, "c", (4, 8)),
        ("nonce-reused", 0, "a", (4, 10)),
    ]


def test_an_answer_without_a_nonce_is_nobodys() -> None:
    assert found("V19", history(TAKEN, called("a", nonce=1), answered("a"))) == []


def test_an_answer_to_a_call_whose_nonce_was_not_written_down_may_be_its_own() -> None:
    assert found("V19", history(TAKEN, called("a"), answered("a", nonce=1))) == []


def test_unless_it_is_known_to_be_another_calls() -> None:
    calls = [called("a"), called("b", nonce=1)]

    assert found("V19", history(TAKEN, calls, answered("a", nonce=1))) == [("foreign-response", (5, 6))]
    assert found("V19", history(TAKEN, answered("a", nonce=1), calls)) == []


def test_a_timeout_carries_no_nonce_and_is_not_foreign() -> None:
    lines = history(TAKEN, called("a", nonce=1), event("res", id="a", r="timeout", final=True, **{"try": 1}))

    assert found("V19", lines) == []


@pytest.mark.parametrize(
    ("parts", "outcome"),
    [
        ([called("a"), answered("a")], Outcome.NOT_CLAIMED),
        ([called("a", nonce=1)], Outcome.PASS),
        ([called("a"), answered("a", nonce=None)], Outcome.PASS),
        ([called("a", nonce=1), called("b", nonce=1)], Outcome.FAIL),
    ],
)
def test_it_applies_where_any_nonce_was_written_down(parts: list[Any], outcome: Outcome) -> None:
    assert verdict("V19", history(TAKEN, parts)).outcome is outcome
