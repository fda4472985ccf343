"""Retry: the strategies that decide whether and when to call again, and where Flink 2.3.0 differs (quirks).

Answers to decision 12 (`strict` and `flink`). Invariant: a flag that is off changes nothing, and each can be
set alone; the profile `flink` sets those of 2.3.0.

Answers to Flink's `AsyncRetryStrategy`, `AsyncRetryPredicate`, `AsyncRetryStrategies`, `RetryPredicates` and
`AsyncWaitOperator.RetryableResultHandlerDelegator`. Invariant: a delay depends only on the strategy and the
attempt number, so a failure of one record never delays another (A82, FLINK-33698). `SharedBackoff` breaks
this on purpose, as Flink 2.3.0 does; only the quirk `backoff_is_shared` uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import floor
from threading import get_ident
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from reference_impl.elements import Record
from reference_impl.errors import CallbackFailed
from reference_impl.mailbox.timers import Timeouts, Timer, Timers, cancel
from reference_impl.operator.functions import AsyncFunction, begin_call
from reference_impl.operator.result import Ending, Probe, Settlement, Supplier, checked_results

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quirks:
    """Which deviations of Flink 2.3.0 to reproduce. All of them concern retry."""

    late_outcome_counts_for_next_attempt: bool = False
    """A76: an outcome of attempt k that arrives while attempt k+1 runs counts as the outcome of k+1."""
    timeout_outcome_is_judged: bool = False
    """A80: at exactly the timeout, the outcome given by `timeout` is judged like an attempt's, and may be retried."""
    attempt_outcome_beats_timeout: bool = False
    """A81: an attempt's outcome between the timer's mail and the outcome given by `timeout` replaces it
    (FLINK-40456).
    """
    backoff_is_shared: bool = False
    """A82: exponential delays grow from the last delay of any record (FLINK-33698)."""
    last_calls_follow_registration: bool = False
    """A86: the end of input also repeats retries that are running, and calls that timed out in their first
    backoff.
    """
    retries_past_the_timeout: bool = False
    """A72: an outcome is retried however long the timeout has passed. Flink 1.20.5 only, which does not have the
    check of FLINK-38082; later releases have it, so profile `flink` does not set it.
    """


STRICT = Quirks()
"""What the specification intends."""

FLINK = Quirks(
    late_outcome_counts_for_next_attempt=True,
    timeout_outcome_is_judged=True,
    attempt_outcome_beats_timeout=True,
    backoff_is_shared=True,
    last_calls_follow_registration=True,
)
"""What Flink 2.3.0 does."""

FLINK_1_20 = replace(FLINK, retries_past_the_timeout=True)
"""What Flink 1.20.5 does."""

PROFILES = {"strict": STRICT, "flink": FLINK}
"""Each profile by name."""


ResultPredicate = Callable[[Sequence[Any]], bool]
ErrorPredicate = Callable[[BaseException], bool]


class RetryStrategy(Protocol):
    """Decides whether and when to call again. Where a predicate is None, such outcomes are final (A74)."""

    @property
    def on_result(self) -> ResultPredicate | None:
        """Whether these results should be discarded and the call repeated."""

    @property
    def on_error(self) -> ErrorPredicate | None:
        """Whether this error is worth another call."""

    def can_retry(self, attempt: int) -> bool:
        """Whether another call may follow attempt number `attempt`; the first is 1."""

    def backoff_ms(self, attempt: int) -> int:
        """The delay after attempt number `attempt`."""


def empty_result(results: Sequence[object]) -> bool:
    """Predicate: the call returned no results (A83)."""
    return not results


def any_error(error: BaseException) -> bool:
    """Predicate: the call failed, with any error (A83)."""
    return isinstance(error, BaseException)


def error_of(*kinds: type[BaseException]) -> ErrorPredicate:
    """Predicate: the error is an instance of one of `kinds`; its causes are not examined (A83)."""
    return lambda error: isinstance(error, kinds)


@dataclass(frozen=True, slots=True, kw_only=True)
class _NoRetry:
    """Never calls again (A84)."""

    on_result: None = None
    on_error: None = None

    def can_retry(self, attempt: int) -> bool:
        del attempt
        return False

    def backoff_ms(self, attempt: int) -> int:
        del attempt
        return -1


NO_RETRY: RetryStrategy = _NoRetry()
"""The strategy of an operator without retry; compared by identity (A4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedDelay:
    """Up to `max_retries` more calls, each `delay_ms` after the previous outcome."""

    max_retries: int
    delay_ms: int
    on_result: ResultPredicate | None = None
    on_error: ErrorPredicate | None = None

    def __post_init__(self) -> None:
        _check_positive(self, "max_retries", "delay_ms")

    def can_retry(self, attempt: int) -> bool:
        return attempt <= self.max_retries  # retries, so one call more than that (A73)

    def backoff_ms(self, attempt: int) -> int:
        del attempt
        return self.delay_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class ExponentialBackoff:
    """Up to `max_retries` more calls; each delay is `multiplier` times the last, up to `max_ms`."""

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
    """An exponential backoff with one current delay for all records of the subtask (A82). Mutable."""

    def __init__(self, strategy: ExponentialBackoff) -> None:
        self._strategy = strategy
        self._last_ms = strategy.initial_ms
        self.on_result = strategy.on_result
        self.on_error = strategy.on_error
        self.can_retry = strategy.can_retry

    def backoff_ms(self, attempt: int) -> int:
        """Multiply the current delay and round it down; a first failure of any record resets it."""
        strategy = self._strategy
        if attempt <= 1:
            self._last_ms = strategy.initial_ms
        else:
            try:
                self._last_ms = min(floor(self._last_ms * strategy.multiplier), strategy.max_ms)
            except OverflowError:
                self._last_ms = strategy.max_ms
        return self._last_ms


def may_retry(strategy: RetryStrategy) -> bool:
    """Whether any outcome can lead to another call; without a predicate none can."""
    return strategy is not NO_RETRY and (strategy.on_result is not None or strategy.on_error is not None)


def strategy_for(strategy: RetryStrategy, quirks: Quirks) -> RetryStrategy:
    """`strategy`, or its `SharedBackoff` if `quirks` asks for one."""
    if quirks.backoff_is_shared and isinstance(strategy, ExponentialBackoff):
        return SharedBackoff(strategy)
    return strategy


def _check_positive(strategy: FixedDelay | ExponentialBackoff, *names: str) -> None:
    for name in names:
        value = getattr(strategy, name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
            raise ValueError(f"{type(strategy).__name__}: {name} is {value!r}; give a number above 0")


_HANDLER = 0
"""The attempt number in the handle that is given to the function's `timeout`."""


class Retrying(Protocol):
    """What the attempts of one operator share: the operator itself."""

    function: AsyncFunction
    strategy: RetryStrategy
    quirks: Quirks
    timers: Timers
    timeouts: Timeouts
    timeout_ms: int
    probe: Probe | None
    ended: bool
    """Whether the input has ended; outcomes are then final without being judged (A85)."""
    last_calls: dict[Attempts, None]
    """Records that `end_input` calls once more, in order of registration; in `strict`, those in backoff."""

    def announce(self, record: Record, attempt: int) -> None: ...


class JudgedSettlement(Settlement, eq=False, kw_only=True):
    """The settlement of a record with retry; its `Attempts` judge outcomes and report them to the probe."""

    attempts: Attempts | None = None
    """Set when its attempts begin."""

    def time_out(self) -> None:
        assert self.attempts is not None, "the timer is set when they begin"
        self.attempts.time_out()

    def tell(self, *_: object, **__: object) -> None:
        """Does nothing: `Attempts` has reported the outcome already."""


class Attempts(Struct, eq=False):
    """The attempts of one record: each outcome is judged, and settles the record or leads to another call. Mutable.

    Answers to Flink's `AsyncWaitOperator.RetryableResultHandlerDelegator`. Invariant: while a record waits for its
    next attempt, its entry stays incomplete in the queue (A77), so snapshots contain it; one timeout covers all
    attempts (A79), and leads to an outcome whatever the attempts do (A80, A81).

    Where Flink 2.3.0 differs, a field of `quirks` reproduces it. As in Flink, an outcome takes two mails: the first
    judges it, the second settles the record. Decision 17 says how ambiguous statements were read.
    """

    shared: Retrying
    settlement: JudgedSettlement
    began_ms: int
    number: int = 1
    """Number of the current or last attempt (A72)."""
    awaiting: bool = False
    """True from the judgement of an outcome to the next attempt; other outcomes are dropped then (A76)."""
    timed_out: bool = False
    answered: bool = False
    """Whether the function's `timeout` gave an outcome, which is then final (A80)."""
    backoff: Timer | None = None

    def begin(self) -> None:
        """Start the timer and make the first call (A79)."""
        self.settlement.attempts = self
        self.shared.announce(self.settlement.element, self.number)
        self.shared.timeouts.add(self.settlement)
        self._invoke()

    def last_call(self) -> None:
        """Called at the end of input: call again now instead of after the backoff (A85)."""
        self._cancel_backoff()
        if not self.shared.quirks.last_calls_follow_registration:
            self.awaiting = False
        self._call_again()

    def accept(self, outcome: _Outcome) -> None:
        if not self.shared.ended:
            outcome.handle.post(partial(self._judge, outcome), "judge an outcome")
            return
        if self._is_stale(outcome.handle):
            return
        self._cancel_backoff()
        self._settle(outcome)

    def accept_supplied(self, handle: _AttemptHandle, supplier: Supplier) -> None:
        """Run as mail; if `supplier` raises, the attempt has failed (A42)."""
        outcome = _Outcome(handle)
        try:
            outcome.results = checked_results(supplier())
        except Exception as raised:  # noqa: BLE001 - judged like any other failure
            outcome.error = raised
        self._judge(outcome)

    def _judge(self, outcome: _Outcome) -> None:
        if self.settlement.owner.closed or self.awaiting or self._is_stale(outcome.handle):
            return
        self.awaiting = True
        if self._is_to_be_retried(outcome):
            self._tell(outcome, final=False)
            self._back_off()
        else:
            self._settle(outcome)

    def _is_stale(self, handle: _AttemptHandle) -> bool:
        """Whether a later attempt has begun, or `timeout` has given an outcome, before this outcome came."""
        quirks = self.shared.quirks
        if handle.attempt == _HANDLER:
            return False
        if self.answered and not quirks.attempt_outcome_beats_timeout:
            return True
        return handle.attempt != self.number and not quirks.late_outcome_counts_for_next_attempt

    def _is_to_be_retried(self, outcome: _Outcome) -> bool:
        """Whether to call again (A72). At exactly the timeout, the timeout has not passed yet, as in Flink."""
        shared, attempt = self.shared, outcome.handle.attempt
        if attempt == _HANDLER and not shared.quirks.timeout_outcome_is_judged:
            return False
        if attempt != _HANDLER and self.timed_out and not shared.quirks.attempt_outcome_beats_timeout:
            return False
        return (
            not shared.ended
            and self._is_unwelcome(outcome)
            and (
                shared.timers.now_ms() - self.began_ms <= shared.timeout_ms
                or shared.quirks.retries_past_the_timeout
            )
            and self._ask("can_retry", partial(shared.strategy.can_retry, self.number))
        )

    def _is_unwelcome(self, outcome: _Outcome) -> bool:
        strategy, results, error = self.shared.strategy, outcome.results, outcome.error
        if error is not None:
            return strategy.on_error is not None and self._ask("on_error", partial(strategy.on_error, error))
        assert results is not None, "an outcome has results or an error"
        return strategy.on_result is not None and self._ask("on_result", partial(strategy.on_result, results))

    def _back_off(self) -> None:
        delay_ms = self._ask("backoff_ms", partial(self.shared.strategy.backoff_ms, self.number))
        self.backoff = self.shared.timers.register(delay_ms, self._retry)
        if self.number == 1 or not self.shared.quirks.last_calls_follow_registration:
            self.shared.last_calls[self] = None

    def _retry(self) -> None:
        """Run as the backoff timer's mail (A78); does nothing if a timeout came first."""
        quirks = self.shared.quirks
        if self.settlement.owner.closed or not self.awaiting:
            return
        if self.settlement.outcome is not None and not quirks.attempt_outcome_beats_timeout:
            return
        self.awaiting = False
        if not quirks.last_calls_follow_registration:
            self.shared.last_calls.pop(self, None)
        self._call_again()

    def time_out(self) -> None:
        """Run as the timer's mail: no further attempt; the outcome that `timeout` gives is final (A80)."""
        if self.settlement.outcome is not None or self.settlement.owner.closed:
            return
        self._cancel_backoff()
        if not self.shared.quirks.last_calls_follow_registration:
            self.shared.last_calls.pop(self, None)
        self.awaiting = False
        self.timed_out = True
        self.settlement.owner.time_out(self.settlement.element.value, _AttemptHandle(self, _HANDLER))

    def _settle(self, outcome: _Outcome) -> None:
        if self.number > 1 or not self.shared.quirks.last_calls_follow_registration:
            self.shared.last_calls.pop(self, None)
        if self.settlement.outcome is not None:
            return
        self._tell(outcome, final=True)
        if outcome.error is not None:
            self.settlement.fail(outcome.error)
        else:
            assert outcome.results is not None, "an outcome has results or an error"
            self.settlement.complete(outcome.results)

    def _call_again(self) -> None:
        self.number += 1
        self.shared.announce(self.settlement.element, self.number)
        self._invoke()

    def _invoke(self) -> None:
        value = self.settlement.element.value
        begin_call(self.shared.function, value, _AttemptHandle(self, self.number))

    def _cancel_backoff(self) -> None:
        if self.backoff is not None:
            cancel(self.backoff)

    def _ask(self, callback: str, ask: Callable[[], T]) -> T:
        """Call a method of the user's strategy; an exception that it raises fails the task at once (A87)."""
        try:
            return ask()
        except Exception as raised:
            raise CallbackFailed(f"retry.{callback}", self.settlement.element.value, raised) from raised

    def _tell(self, outcome: _Outcome, *, final: bool) -> None:
        if self.shared.probe is None:
            return
        reported = Ending.OK if outcome.error is None else Ending.FAIL
        ending = Ending.TIMEOUT if outcome.handle.attempt == _HANDLER else reported
        self.shared.probe.settled(
            self.settlement.element,
            attempt=self.number,
            ending=ending,
            final=final,
            results=outcome.results,
            error=outcome.error,
        )


class _Outcome(Struct, eq=False):
    """What was reported to `handle`: results or an error."""

    handle: _AttemptHandle
    results: Sequence[object] | None = None
    error: BaseException | None = None


class _AttemptHandle(Struct, eq=False):
    """Handle of one attempt, or of the function's `timeout`. Mutable; only its first use counts (A36, A76)."""

    attempts: Attempts
    attempt: int
    used: bool = False

    @property
    def record_key(self) -> object:
        return self.attempts

    @property
    def done(self) -> bool:
        return self.attempts.settlement.done

    def complete(self, results: Sequence[object]) -> None:
        self._use(partial(self.attempts.accept, _Outcome(self, checked_results(results))))

    def fail(self, error: BaseException) -> None:
        self._use(partial(self.attempts.accept, _Outcome(self, error=error)))

    def supply(self, supplier: Supplier) -> None:
        accept = partial(self.attempts.accept_supplied, self, supplier)
        self._use(partial(self.post, accept, "judge what a supplier gives"))

    def post(self, action: Callable[[], None], what: str) -> None:
        """Enqueue `action` as mail, unless the mailbox is closed."""
        self.attempts.settlement.post(action, what)

    def _use(self, accept: Callable[[], None]) -> None:
        if get_ident() != self.attempts.settlement.owner.thread:
            self.post(partial(self._use, accept), "outcome from a foreign thread")
            return
        counts_again = self.attempts.shared.quirks.late_outcome_counts_for_next_attempt
        if not self.used or counts_again:
            self.used = True
            self.attempts.answered |= self.attempt == _HANDLER
            accept()
