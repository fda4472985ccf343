"""Defects of retries: when a record is called again, how often, with what, and after which outcomes.

Answers to the mistakes that an `AsyncRetryStrategy` and the operator's backoff timers invite: an off-by-one, a backoff
that is shared or never reset, a closure over a loop's variable. Invariant: an operator without retry is the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Unpack

from harness.scenario.model import Scenario
from harness.sut.defects.defect import NEVER, SIM_AND_LIVE, Defect, both, calls_fail, retries
from harness.sut.defects.twelve import building
from harness.sut.variant import Variant
from reference_impl.elements import QueueElement, Record
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.build import BuildOperator, Mode, Parts, build_operator
from reference_impl.operator.functions import begin_call
from reference_impl.operator.result import Settlement
from reference_impl.operator.retry import (
    Attempts,
    ErrorPredicate,
    ExponentialBackoff,
    JudgedSettlement,
    ResultPredicate,
    RetryStrategy,
    _AttemptHandle,
    empty_result,
)
from tools.defects.kinds import Stranger
from tools.defects.where import has_dead_letters, is_restored


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


class _AtOnce(_OtherStrategy):
    def backoff_ms(self, attempt: int) -> int:
        del attempt
        return 0


class _OneMore(_OtherStrategy):
    def can_retry(self, attempt: int) -> bool:
        return self._strategy.can_retry(attempt - 1)


class _NeverReset(_OtherStrategy):
    """One backoff for all records, which doubles with each failure and is never set back."""

    _times = 1

    def backoff_ms(self, attempt: int) -> int:
        times, self._times = self._times, min(2 * self._times, 2**20)
        return self._strategy.backoff_ms(attempt) * times


class _Exploding(_OtherStrategy):
    """A multiplier without a bound: the third try waits fifty times as long as the second."""

    def backoff_ms(self, attempt: int) -> int:
        times: int = 50 ** (attempt - 1)
        return self._strategy.backoff_ms(attempt) * times


class _HalfOfOddOnes(_OtherStrategy):
    """Jitter that is taken off the delay: one failure in four waits half of it."""

    _count = 0

    def backoff_ms(self, attempt: int) -> int:
        self._count += 1
        delay_ms = self._strategy.backoff_ms(attempt)
        return delay_ms if self._count % 4 else delay_ms // 2


def _deciding(other: Callable[[RetryStrategy], RetryStrategy]) -> BuildOperator:
    """A `build_operator` whose retry strategy, if there is one, is `other` of the honest one."""

    def build(*, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncWaitOperator:
        if "retry" in parts:
            parts["retry"] = other(parts["retry"])
        return build_operator(mode=mode, capacity=capacity, **parts)

    return build


class _OfOtherAttempts(AsyncWaitOperator):
    """The reference operator, with another class for a record's attempts."""

    attempts: ClassVar[type[Attempts]] = Attempts

    def _process_with_retry(self, record: Record) -> None:
        entry = JudgedSettlement(owner=self, element=record)
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


class _EmptyInTheEnd(Attempts):
    def _settle(self, outcome: Any) -> None:
        if outcome.error is not None and self.number > 1:
            outcome.results, outcome.error = (), None
        super()._settle(outcome)


class _SwallowsLastError(_OfOtherAttempts):
    """A record whose tries are used up leaves without a result, and without its error."""

    attempts = _EmptyInTheEnd


class _TimeoutOnce(Attempts):
    def time_out(self) -> None:
        if self.number == 1:
            super().time_out()


class _ForgetsTimeout(_OfOtherAttempts):
    """A call that was made again has no timeout any more."""

    attempts = _TimeoutOnce


class _NoTimeoutInBackoff(Attempts):
    def time_out(self) -> None:
        if not self.awaiting:
            super().time_out()


class _LosesTimeout(_OfOtherAttempts):
    """A record that waits for its next call does not time out, and is called after its time is over."""

    attempts = _NoTimeoutInBackoff


class _TimeoutBehindBackoff(Attempts):
    is_overdue: bool = False

    def time_out(self) -> None:
        self.is_overdue = True
        if not self.awaiting:
            super().time_out()

    def _call_again(self) -> None:
        super()._call_again()
        if self.is_overdue:
            super().time_out()


class _DefersTimeout(_OfOtherAttempts):
    """A record that times out in its backoff is called once more, and times out then."""

    attempts = _TimeoutBehindBackoff


class _BackoffFromCall(Attempts):
    began_try_ms: int = 0

    def _invoke(self) -> None:
        self.began_try_ms = self.shared.timers.now_ms()
        super()._invoke()

    def _back_off(self) -> None:
        took_ms = self.shared.timers.now_ms() - self.began_try_ms
        wait_ms = max(0, self.shared.strategy.backoff_ms(self.number) - took_ms)
        self.backoff = self.shared.timers.register(wait_ms, self._retry)
        self.shared.last_calls[self] = None


class _BacksOffFromCall(_OfOtherAttempts):
    """A backoff begins with the call that fails, not with its failure (A82)."""

    attempts = _BackoffFromCall


class _TimeoutEach(Attempts):
    began_try_ms: int = -1

    def _call_again(self) -> None:
        self.began_try_ms = self.shared.timers.now_ms()
        self.began_ms = self.began_try_ms
        self.shared.timeouts.add(self.settlement)
        super()._call_again()

    def time_out(self) -> None:
        if self.began_try_ms + self.shared.timeout_ms <= self.shared.timers.now_ms():
            super().time_out()


class _RestartsTimeout(_OfOtherAttempts):
    """The timeout begins anew with each try, so that a record can take as many timeouts as it has tries."""

    attempts = _TimeoutEach


class _AsksNewest(Attempts):
    shared: Any

    def _invoke(self) -> None:
        if self.number == 1:
            self.shared.newest = self.settlement.element.value
            super()._invoke()
        else:
            value = self.shared.newest
            begin_call(self.shared.function, value, _AttemptHandle(self, self.number))


class _RetriesNewest(_OfOtherAttempts):
    """A call that is made again asks for the record that came last: a closure over the loop's variable."""

    attempts = _AsksNewest
    newest: Any = None


class _EndDrops(AsyncWaitOperator):
    """Gives up at the end of input what waits in a backoff, without a result."""

    def end_input(self) -> None:
        waiting, self.last_calls = self.last_calls, {}
        for attempts in waiting:
            attempts._cancel_backoff()  # noqa: SLF001 - the defect
            attempts.settlement.complete(())
        super().end_input()


class _RestoredOnce(AsyncWaitOperator):
    """Makes the calls of restored records once: the replay goes past the retry."""

    _is_restoring = False

    def open(self, restored: Iterable[QueueElement] = ()) -> None:
        self._is_restoring = True
        super().open(restored)
        self._is_restoring = False

    def _process_with_retry(self, record: Record) -> None:
        if not self._is_restoring:
            super()._process_with_retry(record)
            return
        entry = Settlement(owner=self, element=record)
        if not self.queue.try_put(entry):
            self._wait_for_slot(entry)
        self.announce(record, 1)
        self.timeouts.add(entry)
        begin_call(self.function, record.value, entry)


def _tries_thrice(scenario: Scenario) -> bool:
    return scenario.operator.tries > 2  # noqa: PLR2004 - as the name says


_BACKOFF = "the wait before a call is the strategy's, no shorter and not much longer"
_TRIES = "a call that fails is made again as often as the strategy says"
_AGAIN = "calls are made again"
_FAILING = f"{_AGAIN}; one ends with an error"

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
    Stranger(
        name="retries-at-once",
        about="a failed call is made again without its backoff",
        component="retry",
        breaks=_BACKOFF,
        variant=Variant(build_operator=_deciding(_AtOnce)),
        where=_FAILING,
        applies=both(retries, calls_fail),
        convicted_by=("V15",),
    ),
    Stranger(
        name="jitter-below-backoff",
        about="one backoff in four is half as long as it should be",
        component="retry",
        breaks=_BACKOFF,
        variant=Variant(build_operator=_deciding(_HalfOfOddOnes)),
        where=_AGAIN,
        applies=retries,
        scenario="timeout-and-retry",
        convicted_by=("V15",),
    ),
    Stranger(
        name="backoff-never-reset",
        about="the backoff doubles with each failure of any record, and is never set back",
        component="retry",
        breaks=_BACKOFF,
        variant=Variant(build_operator=_deciding(_NeverReset)),
        where=_FAILING,
        applies=both(retries, calls_fail),
        scenario="five-tries",
        convicted_by=("V15",),
    ),
    Stranger(
        name="backoff-explodes",
        about="the backoff grows fiftyfold with each try of a record, without a bound",
        component="retry",
        breaks=_BACKOFF,
        variant=Variant(build_operator=_deciding(_Exploding)),
        where=f"{_FAILING}, three times or more",
        applies=both(_tries_thrice, calls_fail),
        scenario="five-tries",
        convicted_by=("V15",),
    ),
    Stranger(
        name="tries-once-too-often",
        about="a call is made once more than the strategy says",
        component="retry",
        breaks=_TRIES,
        variant=Variant(build_operator=_deciding(_OneMore)),
        where=_FAILING,
        applies=both(retries, calls_fail),
        scenario="tries-run-out",
        convicted_by=("V15",),
    ),
    Stranger(
        name="swallows-last-error",
        about="a record whose tries are used up leaves without results and without an error",
        component="retry",
        breaks="a record that failed for good fails its task",
        variant=Variant(build_operator=building(_SwallowsLastError)),
        where="calls are made again; there are no dead letters",
        applies=both(retries, calls_fail, lambda scenario: not has_dead_letters(scenario)),
        scenario="last-try-fails",
        convicted_by=("V5", "V8", "V9", "V10"),
    ),
    Stranger(
        name="retry-forgets-timeout",
        about="the timeout of a record is gone once its call has been made again",
        component="retry",
        breaks="one timeout covers all tries of a record",
        variant=Variant(build_operator=building(_ForgetsTimeout)),
        where=_AGAIN,
        applies=retries,
        scenario="timeout-spans-tries",
        convicted_by=("V15",),
    ),
    Stranger(
        name="timeout-lost-in-backoff",
        about="a record that waits in its backoff does not time out",
        component="retry",
        breaks="one timeout covers all tries of a record",
        variant=Variant(build_operator=building(_LosesTimeout)),
        where=_AGAIN,
        applies=retries,
        scenario="backoff-outlasts-timeout",
        convicted_by=("V15",),
    ),
    Defect(
        name="timeout-behind-backoff",
        about="a record that times out in its backoff is called once more before it is answered for",
        mirrors="FLINK-38082: the timeout does not cancel the delayed retry",
        convicted_by=("V15",),
        variant=Variant(build_operator=building(_DefersTimeout)),
        where="`backoff-ends-behind-timeout`",
        applies=NEVER,
        scenario="backoff-ends-behind-timeout",
        levels=("sim",),
    ),
    Defect(
        name="backoff-from-call",
        about="a backoff begins with the call that fails, so a slow failure is followed by a call at once",
        mirrors="a schedule at a fixed rate, where a fixed delay is meant",
        convicted_by=("V15",),
        variant=Variant(build_operator=building(_BacksOffFromCall)),
        where="`slow-failures`",
        applies=NEVER,
        scenario="slow-failures",
        levels=SIM_AND_LIVE,
    ),
    Stranger(
        name="timeout-for-each-try",
        about="the timeout begins anew with each try",
        component="retry",
        breaks="one timeout covers all tries of a record",
        variant=Variant(build_operator=building(_RestartsTimeout)),
        where=_AGAIN,
        applies=retries,
        scenario="timeout-spans-tries",
        convicted_by=("V15",),
    ),
    Stranger(
        name="retries-newest-record",
        about="a call that is made again asks for the record that came last",
        component="retry",
        breaks="a result belongs to its own record",
        variant=Variant(build_operator=building(_RetriesNewest)),
        where=_FAILING,
        applies=both(retries, calls_fail),
        convicted_by=("V1", "V8", "V9"),
    ),
    Stranger(
        name="end-drops-backoff",
        about="what waits in a backoff at the end of input leaves without a result",
        component="retry",
        breaks="what waits in a backoff at the end of input is called at once",
        variant=Variant(build_operator=building(_EndDrops)),
        where=_FAILING,
        applies=both(retries, calls_fail),
        convicted_by=("V5", "V8", "V9", "V10", "V15"),
    ),
    Stranger(
        name="restored-records-not-retried",
        about="a record that was restored from a snapshot is called once",
        component="retry",
        breaks=_TRIES,
        variant=Variant(build_operator=building(_RestoredOnce)),
        where="calls are made again; an attempt is killed, or superseded",
        applies=both(retries, is_restored),
        scenario="retry-after-restart",
        convicted_by=("V15",),
    ),
)
