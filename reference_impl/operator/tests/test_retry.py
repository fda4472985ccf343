"""Claims about retry as specified (`strict`): A4, A34, A42, A58, A71-A75, A77-A80, A85, A87, A88."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, get_args

import pytest

from reference_impl.errors import CallbackFailed, CallTimedOut
from reference_impl.operator.build import Mode
from reference_impl.operator.result import ResultHandle
from reference_impl.operator.retry import FixedDelay, RetryStrategy, any_error, empty_result
from reference_impl.tests.rig import (
    HandFunction,
    More,
    OpenRig,
    Rig,
    open_virtual,
    record,
    substitute,
    watermark,
)
from tools.cases import each

BOTH = pytest.mark.parametrize("mode", get_args(Mode))
FIXED = FixedDelay(max_retries=2, delay_ms=10, on_error=any_error, on_result=empty_result)
RETRY: More = {"retry": FIXED}


def always(*outcome: Any) -> HandFunction:
    """A function whose every call ends at once: with these results, or with the error."""

    def invoke(_: Any, handle: ResultHandle) -> None:
        if outcome and isinstance(outcome[0], BaseException):
            handle.fail(outcome[0])
        else:
            handle.complete(outcome)

    return HandFunction(invoke=invoke)


# -------------------------------------------------------------------------- whether there is another call


def test_a_strategy_without_predicates_is_no_retry_a4(rigs: OpenRig) -> None:
    with rigs(timeout_ms=60_000, retry=FixedDelay(max_retries=2, delay_ms=1)) as rig:
        rig.process(record(1))

        rig.fail(1)

        assert rig.causes() == [ArithmeticError], "at once, as A41 has it without retry"


@pytest.mark.parametrize("max_retries", [1, 3])
def test_there_are_at_most_one_call_more_than_retries_a73(max_retries: int) -> None:
    retry = replace(FIXED, max_retries=max_retries)
    with open_virtual(timeout_ms=60_000, retry=retry, function=always(ArithmeticError())) as rig:
        rig.process(record(1))
        rig.advance(1_000)

    assert rig.calls() == [1, *((1, attempt) for attempt in range(2, max_retries + 2))]


@pytest.mark.parametrize(
    ("retry", "calls"),
    [
        pytest.param(FIXED, 2, id="both"),
        pytest.param(replace(FIXED, on_error=None), 1, id="no predicate for it"),
        pytest.param(replace(FIXED, on_error=lambda _: False), 1, id="a predicate that is content"),
    ],
)
def test_an_error_goes_to_the_errors_predicate_and_is_final_without_one_a72_a74(
    retry: RetryStrategy, calls: int
) -> None:
    with open_virtual(timeout_ms=60_000, retry=retry) as rig:
        rig.process(record(1))
        rig.fail(1)
        rig.advance(10)

    assert len(rig.calls()) == calls
    assert bool(rig.failures) is (calls == 1)


@pytest.mark.parametrize(
    ("retry", "results", "calls"),
    [
        pytest.param(FIXED, [], 2, id="unwelcome"),
        pytest.param(FIXED, ["a"], 1, id="welcome"),
        pytest.param(replace(FIXED, on_result=None), [], 1, id="no predicate for it"),
        pytest.param(
            replace(FIXED, on_result=lambda given: given == ("a",)), ["a"], 2, id="a predicate of ours"
        ),
    ],
)
def test_results_go_to_the_results_predicate_and_are_final_without_one_a72_a74(
    retry: RetryStrategy, results: list[str], calls: int
) -> None:
    with open_virtual(timeout_ms=60_000, retry=retry) as rig:
        rig.process(record(1))
        rig.complete(1, *results)
        rig.advance(10)

    assert len(rig.calls()) == calls
    assert rig.values() == (results if calls == 1 else [])


def test_when_attempts_are_used_up_the_last_results_stand_as_they_are_a75() -> None:
    with open_virtual(timeout_ms=60_000, retry=FIXED, function=always()) as rig:
        rig.process(record(1), watermark(1))
        rig.advance(1_000)

    assert (rig.values(), rig.failures, len(rig.calls())) == (["w1"], [], 3)


def test_when_attempts_are_used_up_the_last_error_fails_the_task_a75() -> None:
    with open_virtual(timeout_ms=60_000, **RETRY) as rig:
        rig.process(record(1))
        for attempt, error in enumerate([KeyError(), ValueError(), ArithmeticError()], start=1):
            rig.fail(1, error, attempt=attempt)
            rig.advance(10 * attempt)

    assert rig.causes() == [ArithmeticError]


def test_the_results_of_one_attempt_never_appear_in_anothers_b15() -> None:
    used_again: list[str] = []
    with open_virtual(timeout_ms=60_000, **RETRY) as rig:
        rig.process(record(1))
        rig.hand.attempts[1][0].complete(used_again)
        rig.advance(10)
        used_again.append("of attempt 1")
        rig.complete(1, "of attempt 2")
        rig.run_mail()

    assert rig.values() == ["of attempt 2"]


def test_a_supplier_that_raises_is_an_attempt_that_failed_a42() -> None:
    def burst() -> list[Any]:
        raise ArithmeticError

    with open_virtual(timeout_ms=60_000, retry=replace(FIXED, max_retries=1)) as rig:
        rig.process(record(1))
        rig.hand.attempts[1][0].supply(burst)
        rig.advance(10)
        assert (rig.calls(), rig.failures) == ([1, (1, 2)], [])

        rig.hand.attempts[1][1].supply(lambda: None)  # type: ignore[arg-type, return-value]
        rig.run_mail()

    assert rig.causes() == [TypeError]


def test_all_attempts_of_a_record_share_a_key_and_no_other_record_does_a71() -> None:
    silent = HandFunction(timeout=lambda _, __: None)
    with open_virtual(timeout_ms=15, function=silent, **RETRY) as rig:
        rig.process(record(1), record(2))
        rig.fail(1)
        rig.advance(15)

        keys = [[handle.record_key for handle in rig.hand.attempts[value]] for value in (1, 2)]
        timeouts = [rig.hand.timeouts[value][0].record_key for value in (1, 2)]
        assert keys == [[timeouts[0]] * 2, [timeouts[1]]]
        assert timeouts[0] != timeouts[1]


# ------------------------------------------------------------------------------------------- the backoff


@BOTH
def test_a_record_in_backoff_keeps_its_slot_and_holds_back_its_watermark_a77_a58(mode: Mode) -> None:
    with open_virtual(mode=mode, capacity=2, timeout_ms=60_000, **RETRY) as rig:
        rig.process(record(1), watermark(1))
        rig.fail(1)
        rig.run_mail()

        assert rig.operator.snapshot() == (record(1), watermark(1))
        assert (rig.emitted, bool(rig.operator.room)) == ([], False)


def test_the_next_attempt_is_a_mail_one_backoff_after_the_outcome_a78() -> None:
    with open_virtual(timeout_ms=60_000, **RETRY) as rig:
        rig.process(record(1))
        rig.advance(7)
        rig.fail(1)
        rig.advance(16)
        assert rig.calls() == [1]
        rig.advance(17, hold=True)
        assert rig.calls() == [1]

        rig.run_mail()

    assert rig.calls() == [1, (1, 2)]


def test_one_timeout_covers_all_attempts_a79() -> None:
    with open_virtual(timeout_ms=15, **RETRY) as rig:
        rig.process(record(1))
        rig.fail(1)
        rig.advance(14)
        assert (len(rig.timers), rig.failures) == (1, [])

        rig.advance(15)

    assert rig.causes() == [CallTimedOut]


def test_past_the_timeout_nothing_is_retried_a72() -> None:
    """A72: the outcome's mail waits behind a long one; FLINK-38082."""
    silent = HandFunction(timeout=lambda _, __: None)
    with open_virtual(timeout_ms=15, function=silent, **RETRY) as rig:
        rig.process(record(1))
        rig.fail(1)
        rig.loop.call_later(0.016, lambda: None)
        rig.advance(16, hold=True)
        rig.run_mail()

    assert (rig.calls(), rig.causes()) == ([1], [ArithmeticError])


@pytest.mark.parametrize("answer", [[], ["s"], ArithmeticError()])
def test_the_timeouts_outcome_is_final_whatever_the_predicates_say_of_it_a80(answer: Any) -> None:
    """A80, B10, B11: and the attempt that was to come is not made."""
    fails = isinstance(answer, BaseException)
    handler = (lambda _, handle: handle.fail(answer)) if fails else substitute(*answer)
    with open_virtual(
        timeout_ms=15, function=HandFunction(timeout=handler), retry=replace(FIXED, delay_ms=20)
    ) as rig:
        rig.process(record(1))
        rig.fail(1)
        rig.advance(1_000)

        assert (rig.calls(), len(rig.hand.timeouts[1]), len(rig.timers)) == ([1], 1, 0)
        assert (rig.values(), rig.causes()) == (([], [ArithmeticError]) if fails else (answer, []))


# ------------------------------------------------------------------------------------ the end of the input


def test_at_the_end_of_input_who_waits_is_called_at_once_and_finally_a85() -> None:
    with open_virtual(timeout_ms=60_000, **RETRY) as rig:
        rig.process(record(1), record(2))
        rig.fail(1)
        rig.advance(4)
        rig.complete_soon(1)
        rig.complete_soon(2, "b")

        rig.operator.end_input()

        assert rig.calls() == [1, 2, (1, 2)], "record 2 is running, and is not called again"
        assert (rig.values(), rig.timers.now_ms(), len(rig.timers)) == (["b"], 4, 0)


def test_the_last_call_is_made_for_each_in_the_order_of_their_backoffs_a85() -> None:
    function = HandFunction(invoke=lambda value, handle: handle.fail(ArithmeticError(value)))
    with open_virtual(timeout_ms=60_000, function=function, **RETRY) as rig:
        rig.process(*(record(value) for value in (3, 1, 2)))
        rig.run_mail()

        rig.operator.end_input()

    assert rig.calls() == [3, 1, 2, (3, 2), (1, 2), (2, 2)]
    assert len(rig.failures) == 3


def test_after_a_restore_attempts_and_time_begin_anew_a88_a50() -> None:
    with open_virtual(timeout_ms=25, **RETRY) as before:
        before.process(record(1))
        before.fail(1)
        before.advance(20)
        assert before.calls() == [1, (1, 2)]
        stored = before.operator.snapshot()

    with open_virtual(timeout_ms=25, function=always(ArithmeticError()), **RETRY) as rig:
        rig.operator.open(stored)
        rig.advance(24)

    assert rig.calls() == [1, (1, 2), (1, 3)]


# ------------------------------------------------------------------------------------- callbacks that raise


def burst(*_: Any) -> Any:
    """A callback that raises."""
    raise ArithmeticError


@dataclass(frozen=True, slots=True, kw_only=True)
class Bursting:
    """A strategy of which one part raises."""

    on_result: Callable[[Any], bool] = empty_result
    on_error: Callable[[Any], bool] = any_error
    can_retry: Callable[[int], bool] = lambda _: True
    backoff_ms: Callable[[int], int] = lambda _: 10


def end_well(rig: Rig) -> None:
    rig.complete(1)


def end_badly(rig: Rig) -> None:
    rig.fail(1)


def end_by_supply(rig: Rig) -> None:
    rig.hand.attempts[1][-1].supply(list)


@each(
    ("part", "end"),
    [
        ("on_result", end_well),
        ("on_result", end_by_supply),
        ("on_error", end_badly),
        ("can_retry", end_well),
        ("can_retry", end_badly),
        ("backoff_ms", end_badly),
        ("backoff_ms", end_by_supply),
    ],
)
def test_a_part_of_the_strategy_that_raises_fails_the_task_in_the_judging_mail_a87(
    part: str, end: Callable[[Rig], None]
) -> None:
    """A87, B7: never silence, and no hang until the timeout."""
    with open_virtual(timeout_ms=60_000, retry=Bursting(**{part: burst})) as rig:
        rig.process(record(1))
        end(rig)

        with pytest.raises(CallbackFailed, match=rf"retry\.{part}") as raised:
            rig.run_mail()

    assert isinstance(raised.value.__cause__, ArithmeticError)


def test_a_further_attempt_that_raises_when_called_fails_the_task_a34() -> None:
    """A34: in any attempt; and no predicate and no handler is asked."""

    def invoke(value: Any, _: ResultHandle) -> None:
        if len(rig.hand.attempts[value]) == 2:
            raise ArithmeticError

    function = HandFunction(invoke=invoke, timeout=lambda _, __: pytest.fail("timed out"))
    with open_virtual(timeout_ms=60_000, function=function, **RETRY) as rig:
        rig.process(record(1))
        rig.fail(1)

        with pytest.raises(CallbackFailed, match="invoke"):
            rig.advance(10)

    assert rig.calls() == [1, (1, 2)]


def test_a_handler_that_raises_under_retry_fails_the_task_a47() -> None:
    with open_virtual(timeout_ms=5, function=HandFunction(timeout=burst), **RETRY) as rig:
        rig.process(record(1))

        with pytest.raises(CallbackFailed, match="timeout"):
            rig.advance(5)
