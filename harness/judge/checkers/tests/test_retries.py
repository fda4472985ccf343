"""V15, retries: the waits of a strategy exactly, and what the small histories of the catalogue leave open."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

from harness.history.header import Retry
from harness.judge.checkers.calls_and_outcomes import BackoffRange
from harness.judge.checkers.tests.small_histories import (
    answered,
    called,
    ended,
    event,
    found,
    history,
    left,
    start,
    took,
)
from tools.cases import each

OPERATOR = {"max_tries": 4, "retry": {"backoff": "fixed", "initial_ms": 10}}


def exponential(initial_ms: int, multiplier: float | Decimal, **more: Any) -> BackoffRange:
    return BackoffRange(Retry(backoff="exponential", initial_ms=initial_ms, multiplier=multiplier, **more))


def waits(backoff: BackoffRange, calls: int) -> list[int]:
    return [backoff.after(k)[0] for k in range(1, calls + 1)]


def test_a_fixed_backoff_waits_equally_long_after_each_call_trust4() -> None:
    assert waits(BackoffRange(Retry(backoff="fixed", initial_ms=7)), 4) == [7, 7, 7, 7]


@each(
    ("backoff", "expected"),
    [
        (exponential(10, 2), [10, 20, 40, 80]),
        (exponential(15, 1.5), [15, 22, 33, 50]),
        (exponential(100, 1.1), [100, 110, 121, 133]),
        (
            exponential(10**20, Decimal("1.00000000000000000001")),
            [10**20, 10**20 + 1, 10**20 + 2, 10**20 + 3],
        ),
        (exponential(50, 2, max_ms=20), [50, 20, 20, 20]),
        (exponential(50, 1, max_ms=20), [50, 20, 20, 20]),
        (exponential(10, 2, max_ms=25), [10, 20, 25, 25]),
        (exponential(0, 2), [0, 0, 0, 0]),
    ],
)
def test_an_exponential_backoff_is_exact_and_limited_from_its_second_wait_on_trust4(
    backoff: BackoffRange, expected: list[int]
) -> None:
    assert waits(backoff, 4) == expected


def test_a_wait_does_not_depend_on_what_was_asked_before_trust4() -> None:
    backoff = exponential(15, 1.5)

    assert [backoff.after(k)[0] for k in (4, 1, 3, 2)] == [50, 15, 33, 22]


def test_profile_flink_allows_any_wait_from_the_second_to_the_maximum_trust4() -> None:
    limited, unlimited = (exponential(10, 10, profile="flink", max_ms=most) for most in (500, None))

    assert [limited.after(k) for k in (1, 2, 3)] == [(10, 10), (100, 500), (100, 500)]
    assert unlimited.after(2) == (100, math.inf)


def retried(*between: Any, again_ms: float = 11, **operator: Any) -> list[tuple[str, tuple[int, ...]]]:
    """What V15 says of a record whose first outcome, at 1 ms, is not final, and what happens before its second call."""
    first = [start(ms=0), took("a", 0, ms=0), called("a", ms=0), answered("a", r="fail", final=False, ms=1)]
    second = [
        called("a", **{"try": 2}, ms=again_ms),
        answered("a", **{"try": 2}, ms=again_ms),
        left("a", ms=again_ms),
    ]
    return found(
        "V15", history(first, list(between), second, ended(ms=again_ms), operator={**OPERATOR, **operator})
    )


def test_a_second_outcome_of_a_call_moves_no_wait_trust4() -> None:
    assert retried(answered("a", r="fail", final=False, ms=5)) == []


def test_an_outcome_of_an_older_call_is_not_that_of_the_latest_trust4() -> None:
    older = answered("a", r="fail", final=False, ms=30)
    parts = [
        start(ms=0), took("a", 0, ms=0), called("a", ms=0), answered("a", r="fail", final=False, ms=1),
        called("a", **{"try": 2}, ms=11), older, answered("a", **{"try": 2}, ms=90), left("a", ms=90),
    ]  # fmt: skip

    assert found("V15", history(parts, ended(ms=90), operator=OPERATOR)) == []


def test_the_timeout_at_the_limit_excuses_a_late_retry_and_one_after_it_does_not_trust4() -> None:
    assert [kind for kind, _ in retried(again_ms=60, timeout_ms=11)] == ["call-after-timeout", "late-timeout"]
    assert [kind for kind, _ in retried(again_ms=60, timeout_ms=12)] == [
        "call-after-timeout", "retry-late", "late-timeout",
    ]  # fmt: skip


def test_a_retry_that_is_missing_names_what_came_instead_trust4() -> None:
    parts = [
        start(ms=0),
        took("a", 0, ms=0, expect=[]),
        called("a", ms=0),
        answered("a", r="fail", final=False, ms=1),
    ]

    lines = history(parts, event("dead", id="a", ms=50), ended(ms=50), operator=OPERATOR)

    assert found("V15", lines) == [("retry-missing", (4, 5)), ("gave-up-early", (3, 4, 5))]


def test_a_call_sooner_than_its_wait_is_early_also_where_nothing_should_be_retried_trust4() -> None:
    kinds = [kind for kind, _ in retried(again_ms=2, retry={**OPERATOR["retry"], "on": ["unknown"]})]  # type: ignore[dict-item]

    assert kinds == ["retried-anyway", "retry-early"]
