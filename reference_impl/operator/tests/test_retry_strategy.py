"""Claims about the strategies: A73, A82-A84."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.operator.retry import (
    NO_RETRY,
    ExponentialBackoff,
    FixedDelay,
    any_error,
    empty_result,
    error_of,
)
from reference_impl.tests.rig import quickly
from tools.cases import each


def test_no_retry_never_retries_and_asks_nobody_a84() -> None:
    assert [NO_RETRY.can_retry(attempt) for attempt in (0, 1, 2)] == [False] * 3
    assert (NO_RETRY.backoff_ms(1), NO_RETRY.on_result, NO_RETRY.on_error) == (-1, None, None)


@pytest.mark.parametrize(
    "strategy",
    [
        FixedDelay(max_retries=2, delay_ms=1),
        ExponentialBackoff(max_retries=2, initial_ms=1, max_ms=9, multiplier=2),
    ],
)
def test_it_counts_retries_and_not_calls_a73(strategy: FixedDelay | ExponentialBackoff) -> None:
    assert [strategy.can_retry(attempt) for attempt in (1, 2, 3)] == [True, True, False]


def test_a_fixed_delay_is_always_the_same_a82() -> None:
    strategy = FixedDelay(max_retries=9, delay_ms=7)

    assert [strategy.backoff_ms(attempt) for attempt in (1, 2, 9)] == [7, 7, 7]


@pytest.mark.parametrize(
    ("initial_ms", "max_ms", "multiplier", "delays"),
    [
        pytest.param(5, 18, 1.5, [5, 7, 11, 16, 18, 18], id="rounded down from the formula, then capped"),
        pytest.param(50, 20, 2, [50, 20, 20], id="the first one has no cap"),
        pytest.param(100, 1_000, 1, [100, 100, 100], id="a factor of one"),
        pytest.param(8, 1_000, 0.5, [8, 4, 2, 1, 0], id="a factor below one"),
        pytest.param(1, 60_000, 10, [1, 10, 100, 1_000, 10_000, 60_000], id="tens"),
    ],
)
def test_an_exponential_delay_grows_from_the_initial_to_the_cap_a82(
    initial_ms: int, max_ms: int, multiplier: float, delays: list[int]
) -> None:
    strategy = ExponentialBackoff(max_retries=9, initial_ms=initial_ms, max_ms=max_ms, multiplier=multiplier)

    assert [strategy.backoff_ms(attempt) for attempt in range(1, len(delays) + 1)] == delays


def test_a_huge_attempt_is_capped_and_no_overflow_a82() -> None:
    strategy = ExponentialBackoff(max_retries=10**6, initial_ms=1, max_ms=60_000, multiplier=1e300)

    assert strategy.backoff_ms(10**6) == 60_000


@quickly
@given(st.lists(st.integers(1, 30), min_size=1, max_size=20))
def test_a_delay_depends_on_the_attempt_alone_and_not_on_who_asked_before_a82_b14(
    attempts: list[int],
) -> None:
    """B14, FLINK-33698."""
    shared = ExponentialBackoff(max_retries=30, initial_ms=3, max_ms=10_000, multiplier=1.7)
    alone = [
        ExponentialBackoff(max_retries=30, initial_ms=3, max_ms=10_000, multiplier=1.7).backoff_ms(attempt)
        for attempt in attempts
    ]

    assert [shared.backoff_ms(attempt) for attempt in attempts] == alone


@each("wrong", [0, -1, True, "3", None])
@each("field", ["max_retries", "delay_ms"])
def test_a_fixed_delay_refuses_a_number_that_is_not_above_zero_by_its_name_a82(
    field: str, wrong: Any
) -> None:
    numbers: dict[str, Any] = {"max_retries": 1, "delay_ms": 1, field: wrong}

    with pytest.raises(ValueError, match=rf"FixedDelay: {field} is {wrong!r}"):
        FixedDelay(**numbers)


@each("wrong", [0, -1, float("nan"), None])
@each("field", ["max_retries", "initial_ms", "max_ms", "multiplier"])
def test_an_exponential_one_does_too_a82(field: str, wrong: Any) -> None:
    numbers: dict[str, Any] = {
        "max_retries": 1,
        "initial_ms": 1,
        "max_ms": 1,
        "multiplier": 2.0,
        field: wrong,
    }

    with pytest.raises(ValueError, match=rf"ExponentialBackoff: {field} is {wrong!r}"):
        ExponentialBackoff(**numbers)


def test_the_ready_made_predicates_are_what_they_are_called_a83() -> None:
    assert [empty_result(results) for results in ([], (), [None], ["a"])] == [True, True, False, False]
    assert any_error(KeyboardInterrupt())
    lookup = error_of(LookupError, ArithmeticError)
    assert [lookup(error) for error in (KeyError(), ZeroDivisionError(), ValueError())] == [True, True, False]


def test_an_errors_cause_does_not_count_as_its_kind_a83() -> None:
    error = ValueError()
    error.__cause__ = KeyError()

    assert not error_of(KeyError)(error)
