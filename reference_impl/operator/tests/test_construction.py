"""Claims about how operators are built, and what is refused then, by name: A1-A5."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, get_args

import pytest

from reference_impl.mailbox.loops import virtual_loop
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.build import (
    DEFAULT_CAPACITY,
    Mode,
    build_operator,
    keyed_wait,
    keyed_wait_with_retry,
    ordered_wait,
    ordered_wait_with_retry,
    unordered_wait,
    unordered_wait_with_retry,
)
from reference_impl.operator.functions import from_blocking
from reference_impl.operator.retry import NO_RETRY, FixedDelay, any_error
from reference_impl.tests.rig import HandFunction, Rig, itself, open_virtual, record, watched_loop
from tools.cases import each

BOTH = pytest.mark.parametrize("mode", get_args(Mode))
RETRY = FixedDelay(max_retries=1, delay_ms=1, on_error=any_error)

ENTRY_POINTS: list[tuple[Callable[..., AsyncWaitOperator], bool, bool]] = [
    (ordered_wait, True, False),
    (unordered_wait, False, False),
    (ordered_wait_with_retry, True, True),
    (unordered_wait_with_retry, False, True),
    (partial(keyed_wait, key_of=itself), False, False),
    (partial(keyed_wait_with_retry, key_of=itself), False, True),
]


def parts(rig: Rig, **more: Any) -> dict[str, Any]:
    """What an operator beside the rig's needs: without a probe, for that is nobody's duty."""
    return {
        "function": rig.hand,
        "timeout_ms": 60_000,
        "executor": rig.executor,
        "timers": rig.timers,
        "emit": rig.emitted.append,
        "fail": rig.failures.append,
        **more,
    }


@each(("build", "ordered", "retries"), ENTRY_POINTS)
@each("capacity", [None, 3])
def test_each_entry_point_leads_to_an_operator_and_the_default_capacity_is_a_hundred_a1(
    build: Callable[..., AsyncWaitOperator], capacity: int | None, *, ordered: bool, retries: bool
) -> None:
    with open_virtual() as rig:
        more: dict[str, Any] = {"retry": RETRY} if retries else {}
        operator = build(**parts(rig, **more), **({} if capacity is None else {"capacity": capacity}))
        due = DEFAULT_CAPACITY if capacity is None else capacity
        operator.open([record(value) for value in range(due)])
        assert (len(operator), bool(operator.room)) == (due, False)

        rig.complete(1, 1)
        rig.fail(2)
        rig.run_mail()
        assert rig.values() == ([] if ordered else [1])
        assert bool(rig.failures) is not retries

        rig.complete(0, 0)
        rig.run_mail()

    assert rig.values() == ([0, 1] if ordered else [1, 0])
    assert DEFAULT_CAPACITY == 100


def test_order_by_key_needs_a_key_a5() -> None:
    with open_virtual() as rig, pytest.raises(ValueError, match="has no key_of"):
        build_operator(mode="keyed", capacity=1, **parts(rig))


@BOTH
@pytest.mark.parametrize("capacity", [0, -1, 1.5, "7", True, None])
def test_a_capacity_below_one_is_refused_a2(mode: Mode, capacity: Any) -> None:
    with pytest.raises(ValueError, match="the capacity is"), open_virtual(mode=mode, capacity=capacity):
        pass


@pytest.mark.parametrize("timeout_ms", [-1, 1.5, "7", True, None])
def test_a_timeout_that_is_no_whole_number_from_zero_is_refused_a3(timeout_ms: Any) -> None:
    """A3; a negative one means none in Flink: here it is taken for the mistake that it is."""
    with pytest.raises(ValueError, match="the timeout_ms is"), open_virtual(timeout_ms=timeout_ms):
        pass


@BOTH
def test_retry_without_a_timeout_is_refused_a3(mode: Mode) -> None:
    with pytest.raises(ValueError, match="timeout_ms is 0, but retry"), open_virtual(mode=mode, retry=RETRY):
        pass


def test_no_retry_is_told_by_being_it_and_not_by_being_like_it_a3_a4() -> None:
    """A3, A4: Flink compares references too, so a strategy that never retries needs a timeout like any other."""
    look_alike = type(NO_RETRY)()
    assert look_alike == NO_RETRY
    with open_virtual(retry=NO_RETRY):
        pass

    with pytest.raises(ValueError, match="timeout_ms"), open_virtual(retry=look_alike):
        pass


@pytest.mark.parametrize("mode", ["sorted", "", "ORDERED", None])
def test_an_unknown_mode_is_refused_a5(mode: Any) -> None:
    with pytest.raises(ValueError, match=f"no output mode {mode!r}"), open_virtual(mode=mode):
        pass


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, None])
def test_a_pool_without_threads_is_refused(threads: Any) -> None:
    with watched_loop() as loop, pytest.raises(ValueError, match=f"threads is {threads!r}"):
        from_blocking(list, loop=loop, threads=threads)


def test_a_blocking_function_in_virtual_time_is_refused() -> None:
    with virtual_loop() as loop, pytest.raises(ValueError, match="real loop"):
        from_blocking(list, loop=loop, threads=1)


def test_an_operator_without_a_probe_works_like_one_with_it_a92() -> None:
    """A92: it counts nothing itself, so nothing is missing."""
    with open_virtual() as rig:
        operator = build_operator(mode="ordered", capacity=2, **parts(rig, function=HandFunction()))
        operator.process(record(1))

        assert (len(operator), rig.happened) == (1, [])
