"""Retry strategies: whether, after what, and how much later a call is made again.

Answers to Flink's `AsyncRetryStrategy`, `AsyncRetryPredicate`, `AsyncRetryStrategies` and `RetryPredicates`.
Invariant: a delay is a function of the strategy and the attempt alone, so records never feel each other's
failures (A82, FLINK-33698); `SharedBackoff` is the quirk that breaks this, and is used by its profile only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor
from typing import Any, Protocol

__all__ = [
    "NO_RETRY",
    "ErrorPredicate",
    "ExponentialBackoff",
    "FixedDelay",
    "ResultPredicate",
    "RetryStrategy",
    "SharedBackoff",
    "any_error",
    "empty_result",
    "error_of",
]

ResultPredicate = Callable[[Sequence[Any]], bool]
ErrorPredicate = Callable[[BaseException], bool]


class RetryStrategy(Protocol):
    """When to call again. A predicate that is None lets every outcome of its kind be final (A74)."""

    @property
    def on_result(self) -> ResultPredicate | None:
        """Whether these results are no answer."""

    @property
    def on_error(self) -> ErrorPredicate | None:
        """Whether this error is worth another call."""

    def can_retry(self, attempt: int) -> bool:
        """Whether another call may follow the `attempt`-th (1, 2, ...)."""

    def backoff_ms(self, attempt: int) -> int:
        """How long to wait after the `attempt`-th."""


def empty_result(results: Sequence[Any]) -> bool:
    """No results at all (A83)."""
    return not results


def any_error(error: BaseException) -> bool:
    """Whatever went wrong (A83)."""
    return isinstance(error, BaseException)


def error_of(*kinds: type[BaseException]) -> ErrorPredicate:
    """The error itself is one of `kinds`; its causes do not count (A83)."""
    return lambda error: isinstance(error, kinds)


@dataclass(frozen=True, slots=True, kw_only=True)
class _NoRetry:
    """One call, and that is it (A84)."""

    on_result: None = None
    on_error: None = None

    def can_retry(self, attempt: int) -> bool:
        del attempt
        return False

    def backoff_ms(self, attempt: int) -> int:
        del attempt
        return -1


NO_RETRY: RetryStrategy = _NoRetry()
"""The strategy of an operator that has none; compared by identity (A4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedDelay:
    """At most `max_retries` more calls, each `delay_ms` after the outcome before it."""

    max_retries: int
    delay_ms: int
    on_result: ResultPredicate | None = None
    on_error: ErrorPredicate | None = None

    def __post_init__(self) -> None:
        _check_positive(self, "max_retries", "delay_ms")

    def can_retry(self, attempt: int) -> bool:
        return attempt <= self.max_retries  # it counts retries, so one call more than that (A73)

    def backoff_ms(self, attempt: int) -> int:
        del attempt
        return self.delay_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class ExponentialBackoff:
    """At most `max_retries` more calls; each waits `multiplier` times as long, but `max_ms` at most."""

    max_retries: int
    initial_ms: int
    max_ms: int
    multiplier: float
    on_result: ResultPredicate | None = None
    on_error: ErrorPredicate | None = None

    def __post_init__(self) -> None:
        _check_positive(self, "max_retries", "initial_ms", "max_ms", "multiplier")

    def can_retry(self, attempt: int) -> bool:
        return attempt <= self.max_retries

    def backoff_ms(self, attempt: int) -> int:
        """The first delay is not capped; the others are rounded down (A82)."""
        if attempt <= 1:
            return self.initial_ms
        try:
            return min(floor(self.initial_ms * self.multiplier ** (attempt - 1)), self.max_ms)
        except OverflowError:
            return self.max_ms


class SharedBackoff:
    """The quirk of A82: one last delay for all records of the subtask. Mutable."""

    def __init__(self, strategy: ExponentialBackoff) -> None:
        self._strategy = strategy
        self._last_ms = strategy.initial_ms
        self.on_result = strategy.on_result
        self.on_error = strategy.on_error
        self.can_retry = strategy.can_retry

    def backoff_ms(self, attempt: int) -> int:
        """The last delay of any record, multiplied and rounded down; anybody's first failure resets it."""
        strategy = self._strategy
        if attempt <= 1:
            self._last_ms = strategy.initial_ms
        else:
            try:
                self._last_ms = min(floor(self._last_ms * strategy.multiplier), strategy.max_ms)
            except OverflowError:
                self._last_ms = strategy.max_ms
        return self._last_ms


def _check_positive(strategy: FixedDelay | ExponentialBackoff, *names: str) -> None:
    for name in names:
        value = getattr(strategy, name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
            raise ValueError(f"{type(strategy).__name__}: {name} is {value!r}; give a number above 0")
