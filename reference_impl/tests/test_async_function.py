"""Claims about a coroutine lifted to an async function: A44, A45, A47, B9."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from reference_impl.async_function import AsyncFunction
from reference_impl.async_wait_build import build_operator
from reference_impl.coroutine_function import from_coroutine
from reference_impl.errors import CallbackFailed, CallTimedOut, StreamElementFailed
from reference_impl.tests.rig import Rig, record, watched_loop


def lifted(loop: asyncio.AbstractEventLoop, function: AsyncFunction, *, timeout_ms: int = 0) -> Rig:
    """A rig around `function`, whose tasks run on `loop`."""
    return Rig(
        loop, build=build_operator, mode="ordered", capacity=10, timeout_ms=timeout_ms, function=function
    )


def cause(rig: Rig) -> BaseException | None:
    """What the one failure was caused by."""
    (failure,) = rig.failures
    assert isinstance(failure, StreamElementFailed)
    return failure.__cause__


async def for_ever(value: Any) -> list[Any]:
    await asyncio.Event().wait()
    return [value]


def test_what_the_coroutine_returns_is_emitted() -> None:
    async def double(value: int) -> list[Any]:
        await asyncio.sleep(0)
        return [value, 2 * value]

    with watched_loop() as loop:
        rig = lifted(loop, from_coroutine(double, loop=loop))
        rig.process(record(1), record(2))
        rig.operator.end_input()

    assert rig.values() == [1, 2, 2, 4]


def test_what_the_coroutine_raises_fails_the_record_and_frees_its_slot_a41() -> None:
    async def burst(value: int) -> list[Any]:
        raise ArithmeticError(value)

    with watched_loop() as loop:
        rig = lifted(loop, from_coroutine(burst, loop=loop))
        rig.process(record(1))
        rig.operator.end_input()

    assert isinstance(cause(rig), ArithmeticError)


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_a_cancelled_coroutine_fails_its_record_wherever_it_stands_b9(turns: int) -> None:
    with watched_loop() as loop:
        rig = lifted(loop, from_coroutine(for_ever, loop=loop))
        rig.process(record(1))
        for _ in range(turns):
            rig.mailbox.let_loop_turn()
        (task,) = asyncio.all_tasks(loop)

        task.cancel()
        rig.operator.end_input()

    assert isinstance(cause(rig), asyncio.CancelledError)


@pytest.mark.parametrize("answer", [None, "text"])
def test_a_coroutine_that_returns_no_list_fails_its_record_a35(answer: Any) -> None:
    async def wrong(value: int) -> list[Any]:
        return answer  # type: ignore[no-any-return]

    with watched_loop() as loop:
        rig = lifted(loop, from_coroutine(wrong, loop=loop))
        rig.process(record(1))
        rig.operator.end_input()

    assert isinstance(cause(rig), TypeError)


def test_a_function_that_is_not_asynchronous_fails_the_task_at_its_call_a34() -> None:
    def plain(value: int) -> list[Any]:
        return [value]

    with watched_loop() as loop:
        rig = lifted(loop, from_coroutine(plain, loop=loop))  # type: ignore[arg-type]
        with pytest.raises(CallbackFailed, match="invoke"):
            rig.process(record(1))


def test_a_timeout_fails_the_record_and_cancels_its_task_a44() -> None:
    with watched_loop() as loop:
        rig = lifted(loop, from_coroutine(for_ever, loop=loop), timeout_ms=1)
        rig.process(record(1))
        (task,) = asyncio.all_tasks(loop)

        rig.operator.end_input()
        rig.mailbox.let_loop_turn()
        assert task.cancelled()

    assert isinstance(cause(rig), CallTimedOut)
    assert rig.happened == [("called", 1), ("timeout", 1)]


def test_a_timeout_may_be_answered_by_a_substitute_a45() -> None:
    with watched_loop() as loop:
        function = from_coroutine(for_ever, loop=loop, on_timeout=lambda value: [f"default of {value}"])
        rig = lifted(loop, function, timeout_ms=1)
        rig.process(record(1))
        rig.operator.end_input()

    assert (rig.values(), rig.failures) == (["default of 1"], [])


def test_a_substitute_that_raises_fails_the_task_a47() -> None:
    def burst(value: int) -> list[Any]:
        raise ArithmeticError

    with watched_loop() as loop:
        rig = lifted(loop, from_coroutine(for_ever, loop=loop, on_timeout=burst), timeout_ms=1)
        rig.process(record(1))

        with pytest.raises(CallbackFailed, match="timeout"):
            rig.operator.end_input()


def test_closing_the_operator_cancels_the_running_tasks_a69() -> None:
    with watched_loop() as loop:
        rig = lifted(loop, from_coroutine(for_ever, loop=loop))
        rig.process(record(1))
        (task,) = asyncio.all_tasks(loop)

        rig.operator.close()
        rig.mailbox.let_loop_turn()
        rig.run_mail()
        assert task.cancelled()

    assert (rig.emitted, rig.failures) == ([], [])
