"""Defects of retries: when a record is called again, how often, and after which outcomes.

Answers to the mistakes that an `AsyncRetryStrategy` and the operator's backoff timers invite. Invariant: each entry
calls at another time, or another number of times, and treats every outcome as the reference does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Unpack

from harness.defects.defect import SIM_AND_LIVE, Defect
from harness.defects.operators import building
from harness.defects.where import NEVER
from harness.sut.variant import Variant
from reference_impl.elements import Record
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.build import BuildOperator, Mode, Parts, build_operator
from reference_impl.operator.retry import (
    Attempts,
    ErrorPredicate,
    ExponentialBackoff,
    JudgedSettlement,
    ResultPredicate,
    RetryStrategy,
    empty_result,
)

__all__ = ["OF_RETRIES"]


class _OtherStrategy:
    """`strategy`, for subclasses that decide otherwise."""

    def __init__(self, strategy: RetryStrategy) -> None:
        self._strategy = strategy

    @property
    def on_result(self) -> ResultPredicate | None:
        return self._strategy.on_result

    @property
    def on_error(self) -> ErrorPredicate | None:
        return self._strategy.on_error

    def can_retry(self, attempt: int) -> bool:
        return self._strategy.can_retry(attempt)

    def backoff_ms(self, attempt: int) -> int:
        return self._strategy.backoff_ms(attempt)


class _BackoffStays(_OtherStrategy):
    def backoff_ms(self, attempt: int) -> int:
        """Always the first wait (A82)."""
        del attempt
        return self._strategy.backoff_ms(1)


class _BackoffWithoutLimit(_OtherStrategy):
    def backoff_ms(self, attempt: int) -> int:
        """The wait without its limit (A82)."""
        strategy = self._strategy
        if not isinstance(strategy, ExponentialBackoff):
            return strategy.backoff_ms(attempt)
        return int(strategy.initial_ms * strategy.multiplier ** (attempt - 1))


class _GivesUpEarly(_OtherStrategy):
    def can_retry(self, attempt: int) -> bool:
        """Counts retries as if they were calls (A73)."""
        return self._strategy.can_retry(attempt + 1)


class _RetriesEmptyAnswers(_OtherStrategy):
    @property
    def on_result(self) -> ResultPredicate:
        """Takes an empty answer for a failure (A83)."""
        honest = self._strategy.on_result

        def is_unwelcome(results: Sequence[Any]) -> bool:
            return empty_result(results) or (honest is not None and honest(results))

        return is_unwelcome


def _deciding(other: Callable[[RetryStrategy], RetryStrategy]) -> BuildOperator:
    """A `build_operator` whose retry strategy, if there is one, is `other` of the honest one."""

    def build(*, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncWaitOperator:
        if "retry" in parts:
            parts["retry"] = other(parts["retry"])
        return build_operator(mode=mode, capacity=capacity, **parts)

    return build


class _OfOtherAttempts(AsyncWaitOperator):
    """The reference operator, with another class for a record's attempts."""

    attempts: type[Attempts] = Attempts

    def _process_with_retry(self, record: Record) -> None:
        entry = JudgedSettlement(self, record)
        if not self.queue.try_put(entry):
            self._wait_for_slot(entry)
        self.attempts(self, entry, self.timers.now_ms()).begin()


class _SharingATimer(Attempts):
    def _back_off(self) -> None:
        """Take the timer from the record that waits for it."""
        for other in self.shared.last_calls:
            other._cancel_backoff()  # noqa: SLF001 - of the same class
        super()._back_off()


class _OneBackoffTimer(_OfOtherAttempts):
    """Keeps one backoff timer for all records (A78)."""

    attempts = _SharingATimer


class _WaitsOutBackoff(AsyncWaitOperator):
    def end_input(self) -> None:
        """Forgets the records that wait in a backoff; their timers call them (A85)."""
        self.last_calls = {}
        super().end_input()


OF_RETRIES = (
    Defect(
        name="backoff-stays",
        about="an exponential backoff does not grow: each wait is the first one",
        mirrors="a backoff that is reset at each failure",
        convicted_by=("V15",),
        variant=Variant(build_operator=_deciding(_BackoffStays)),
        where="`backoff-grows`",
        applies=NEVER,
        scenario="backoff-grows",
        levels=SIM_AND_LIVE,
    ),
    Defect(
        name="backoff-without-limit",
        about="an exponential backoff grows beyond its limit",
        mirrors="a limit that is configured and not read",
        convicted_by=("V15",),
        variant=Variant(build_operator=_deciding(_BackoffWithoutLimit)),
        where="`backoff-is-limited`",
        applies=NEVER,
        scenario="backoff-is-limited",
        levels=SIM_AND_LIVE,
    ),
    Defect(
        name="gives-up-one-try-early",
        about="a record is given up with one try left",
        mirrors="an off-by-one between tries and retries",
        convicted_by=("V15",),
        variant=Variant(build_operator=_deciding(_GivesUpEarly)),
        where="`five-tries`",
        applies=NEVER,
        scenario="five-tries",
        levels=SIM_AND_LIVE,
    ),
    Defect(
        name="one-backoff-timer",
        about="all records share one backoff timer, so that only the last one that failed is called again",
        mirrors="FLINK-33698",
        convicted_by=("V15",),
        variant=Variant(build_operator=building(_OneBackoffTimer)),
        where="`retries-overlap`",
        applies=NEVER,
        scenario="retries-overlap",
        levels=SIM_AND_LIVE,
    ),
    Defect(
        name="waits-out-backoff-at-end",
        about="at the end of the input, a record that waits in a backoff waits on",
        mirrors="a drain that forgets retries",
        convicted_by=("V15",),
        variant=Variant(build_operator=building(_WaitsOutBackoff)),
        where="`end-during-backoff`",
        applies=NEVER,
        scenario="end-during-backoff",
        levels=SIM_AND_LIVE,
    ),
    Defect(
        name="retries-empty-answers",
        about="an empty answer is taken for a failure, and asked for again",
        mirrors="a predicate for empty results that nobody asked for",
        convicted_by=("V15",),
        variant=Variant(build_operator=_deciding(_RetriesEmptyAnswers)),
        where="`empty-answers-stay`",
        applies=NEVER,
        scenario="empty-answers-stay",
        levels=SIM_AND_LIVE,
    ),
)
