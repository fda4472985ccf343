"""A record's attempts: an outcome is judged before it counts, and the call is made again if it is no good.

Answers to Flink's `AsyncWaitOperator.RetryableResultHandlerDelegator`. Invariant: while a record waits for its
next attempt its entry stays incomplete in the queue (A77), so a snapshot holds it; one timeout covers all its
attempts (A79), and leads to an outcome from every state (A80, A81).

Where Flink 2.3.0 does otherwise, `quirks` says so by name. As there, an outcome costs two mails: one judges it,
and a final one settles the record in the next. Readings where the statements leave a choice: decision 17.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from threading import get_ident
from typing import Any, Protocol

from msgspec import Struct

from reference_impl.async_function import AsyncFunction, begin_call
from reference_impl.elements import Record
from reference_impl.errors import CallbackFailed
from reference_impl.probe import Ending, Probe
from reference_impl.quirks import Quirks
from reference_impl.result import Settlement, Supplier, checked_results
from reference_impl.retry import RetryStrategy
from reference_impl.timers import Timeouts, Timer, Timers, cancel

__all__ = ["Attempts", "JudgedSettlement", "Retrying"]

_HANDLER = 0
"""The number of the attempt that is none: the timeout handler's."""


class Retrying(Protocol):
    """What the attempts of one operator share."""

    function: AsyncFunction
    strategy: RetryStrategy
    quirks: Quirks
    timers: Timers
    timeouts: Timeouts
    timeout_ms: int
    probe: Probe | None
    ended: bool
    """Whether the input has ended: no outcome is judged any more (A85)."""
    last_calls: dict[Attempts, None]
    """Whom the end of input calls once more: in `strict`, those in backoff; in order of registration."""

    def announce(self, record: Record, attempt: int) -> None:
        """Tell the probe of a call."""


class JudgedSettlement(Settlement):
    """A settlement whose outcome has been judged, and the probe told."""

    __slots__ = ("attempts",)

    attempts: Attempts

    def time_out(self) -> None:
        """The timer of all attempts (A79)."""
        self.attempts.time_out()

    def tell(self, *_: object, **__: object) -> None:
        """Nothing more."""


class Attempts(Struct, eq=False):
    """The attempts of one record. Mutable."""

    shared: Retrying
    settlement: JudgedSettlement
    began_ms: int
    number: int = 1
    """Of the attempt that runs, or that ran last (A72)."""
    awaiting: bool = False
    """Whether an outcome was judged and no attempt has begun since: others are dropped (A76)."""
    timed_out: bool = False
    answered: bool = False
    """Whether the timeout handler gave an outcome, which is final then (A80)."""
    backoff: Timer | None = None

    def begin(self) -> None:
        """The first attempt; the timeout counts from here (A79)."""
        self.settlement.attempts = self
        self.shared.announce(self.settlement.element, self.number)
        self.shared.timeouts.add(self.settlement)
        self._invoke()

    def last_call(self) -> None:
        """At the end of input: do not wait out the backoff (A85)."""
        self._cancel_backoff()
        if not self.shared.quirks.last_calls_follow_registration:
            self.awaiting = False
        self._call_again()

    def accept(
        self, handle: _AttemptHandle, results: Sequence[Any] | None, error: BaseException | None
    ) -> None:
        """An outcome, on the task's thread."""
        if not self.shared.ended:
            handle.post(partial(self._judge, handle, results, error), "judge an outcome")
            return
        if self._is_stale(handle):
            return
        self._cancel_backoff()
        self._settle(handle, results, error)

    def accept_supplied(self, handle: _AttemptHandle, supplier: Supplier) -> None:
        """The mail of a supplier; one that raises is an attempt that failed (A42)."""
        try:
            results = checked_results(supplier())
        except Exception as raised:  # noqa: BLE001 - whatever it is, it is judged
            self._judge(handle, None, raised)
        else:
            self._judge(handle, results, None)

    def _judge(
        self, handle: _AttemptHandle, results: Sequence[Any] | None, error: BaseException | None
    ) -> None:
        if self.settlement.owner.closed or self.awaiting or self._is_stale(handle):
            return
        self.awaiting = True
        if self._is_to_be_retried(handle, results, error):
            self._tell(handle, results, error, final=False)
            self._back_off()
        else:
            self._settle(handle, results, error)

    def _is_stale(self, handle: _AttemptHandle) -> bool:
        """Whether the outcome has been overtaken by a later attempt, or by the timeout handler's."""
        quirks = self.shared.quirks
        if handle.attempt == _HANDLER:
            return False
        if self.answered and not quirks.attempt_outcome_beats_timeout:
            return True
        return handle.attempt != self.number and not quirks.late_outcome_counts_for_next_attempt

    def _is_to_be_retried(
        self, handle: _AttemptHandle, results: Sequence[Any] | None, error: BaseException | None
    ) -> bool:
        """A72. The comparison with the timeout is Flink's: at exactly the timeout it has not passed."""
        shared = self.shared
        if handle.attempt == _HANDLER and not shared.quirks.timeout_outcome_is_judged:
            return False
        if handle.attempt != _HANDLER and self.timed_out and not shared.quirks.attempt_outcome_beats_timeout:
            return False
        return (
            not shared.ended
            and self._is_unwelcome(results, error)
            and shared.timers.now_ms() - self.began_ms <= shared.timeout_ms
            and self._ask("can_retry", partial(shared.strategy.can_retry, self.number))
        )

    def _is_unwelcome(self, results: Sequence[Any] | None, error: BaseException | None) -> bool:
        strategy = self.shared.strategy
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
        """The backoff timer's mail (A78). One that a timeout has overtaken begins nothing."""
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
        """The timer's mail: no further attempt, and the handler's word is the last (A80)."""
        if self.settlement.outcome is not None or self.settlement.owner.closed:
            return
        self._cancel_backoff()
        if not self.shared.quirks.last_calls_follow_registration:
            self.shared.last_calls.pop(self, None)
        self.awaiting = False
        self.timed_out = True
        self.settlement.owner.time_out(self.settlement.element.value, _AttemptHandle(self, _HANDLER))

    def _settle(
        self, handle: _AttemptHandle, results: Sequence[Any] | None, error: BaseException | None
    ) -> None:
        if self.number > 1 or not self.shared.quirks.last_calls_follow_registration:
            self.shared.last_calls.pop(self, None)
        if self.settlement.outcome is not None:
            return
        self._tell(handle, results, error, final=True)
        if error is not None:
            self.settlement.fail(error)
        else:
            assert results is not None, "an outcome has results or an error"
            self.settlement.complete(results)

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

    def _ask(self, callback: str, ask: Callable[[], Any]) -> Any:
        """The strategy is the user's: what it raises fails the task, at once (A87)."""
        try:
            return ask()
        except Exception as raised:
            raise CallbackFailed(f"retry.{callback}", self.settlement.element.value, raised) from raised

    def _tell(
        self,
        handle: _AttemptHandle,
        results: Sequence[Any] | None,
        error: BaseException | None,
        *,
        final: bool,
    ) -> None:
        if self.shared.probe is None:
            return
        ending = Ending.TIMEOUT if handle.attempt == _HANDLER else Ending.OK if error is None else Ending.FAIL
        self.shared.probe.settled(
            self.settlement.element,
            attempt=self.number,
            ending=ending,
            final=final,
            results=results,
            error=error,
        )


class _AttemptHandle(Struct, eq=False):
    """One attempt's door, or the timeout handler's. Mutable: what comes through it first counts (A36, A76)."""

    attempts: Attempts
    attempt: int
    used: bool = False

    @property
    def record_key(self) -> object:
        """The attempts together."""
        return self.attempts

    @property
    def done(self) -> bool:
        """Whether the record has its outcome."""
        return self.attempts.settlement.done

    def complete(self, results: Sequence[Any]) -> None:
        self._use(partial(self.attempts.accept, self, checked_results(results), None))

    def fail(self, error: BaseException) -> None:
        self._use(partial(self.attempts.accept, self, None, error))

    def supply(self, supplier: Supplier) -> None:
        accept = partial(self.attempts.accept_supplied, self, supplier)
        self._use(partial(self.post, accept, "judge what a supplier gives"))

    def post(self, action: Callable[[], None], what: str) -> None:
        """Run `action` as mail, if the task still has any."""
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
