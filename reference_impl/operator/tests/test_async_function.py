"""Claims about a coroutine lifted to an async function: A34, A35, A41, A44, A45, A47, A69, A79, B9."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from reference_impl.errors import CallbackFailed, CallTimedOut, StreamElementFailed
from reference_impl.operator.functions import Lookup, from_coroutine
from reference_impl.operator.retry import FixedDelay, any_error
from reference_impl.tests.rig import More, Rig, record, watched_loop

RETRY: More = {"retry": FixedDelay(max_retries=1, delay_ms=1, on_error=any_error)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A loop, of one kind or the other."""

    loop: asyncio.AbstractEventLoop

    def lifted(self, lookup: Lookup, *, timeout_ms: int = 0, on_timeout: Any = "fail", **more: Any) -> Rig:
        """A rig around `lookup`, whose tasks run on the loop."""
        function = from_coroutine(lookup, loop=self.loop, on_timeout=on_timeout)
        return Rig(self.loop, function=function, timeout_ms=timeout_ms, **more)

    def tasks(self) -> set[asyncio.Task[Any]]:
        return asyncio.all_tasks(self.loop)

    def close_after_failure(self, rig: Rig) -> None:
        """Close the operator as an engine does when its task failed; the calls still running end by it.

        Without it the garbage collector may find a pending task before the loop ends, and asyncio reports that.
        """
        rig.operator.close()
        rig.mailbox.let_loop_turn()
        assert self.tasks() == set()


@pytest.fixture(params=[pytest.param("real", marks=pytest.mark.sweep), "virtual"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    with watched_loop(virtual=request.param == "virtual") as loop:
        yield Bench(loop=loop)


def cause(rig: Rig) -> BaseException | None:
    """What the one failure was caused by."""
    (failure,) = rig.failures
    assert isinstance(failure, StreamElementFailed)
    return failure.__cause__


async def for_ever(value: Any) -> list[Any]:
    await asyncio.Event().wait()
    return [value]


def test_what_the_coroutine_returns_is_emitted(bench: Bench) -> None:
    async def double(value: int) -> list[Any]:
        await asyncio.sleep(0)
        return [value, 2 * value]

    rig = bench.lifted(double)
    rig.process(record(1), record(2))
    rig.operator.end_input()

    assert rig.values() == [1, 2, 2, 4]


def test_what_the_coroutine_raises_fails_the_record_and_frees_its_slot_a41(bench: Bench) -> None:
    async def burst(value: int) -> list[Any]:
        raise ArithmeticError(value)

    rig = bench.lifted(burst)
    rig.process(record(1))
    rig.operator.end_input()

    assert isinstance(cause(rig), ArithmeticError)


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_a_cancelled_coroutine_fails_its_record_wherever_it_stands_b9(bench: Bench, turns: int) -> None:
    rig = bench.lifted(for_ever)
    rig.process(record(1))
    for _ in range(turns):
        rig.mailbox.let_loop_turn()
    (task,) = bench.tasks()

    task.cancel()
    rig.operator.end_input()

    assert isinstance(cause(rig), asyncio.CancelledError)


AWAITS = 4


@pytest.mark.parametrize("place", range(AWAITS + 1))
def test_cancelled_at_any_of_its_awaits_a_coroutine_still_ends_its_record_b9(
    bench: Bench, place: int
) -> None:
    """B9: at the first, in a nested coroutine, under `wait_for`, in its own clean-up; and before its first step."""
    stood: list[int] = []
    gates = [bench.loop.create_future() for _ in range(AWAITS)]

    async def wait(number: int) -> None:
        stood.append(number)
        await gates[number - 1]

    async def lookup(value: int) -> list[Any]:
        try:
            await wait(1)
            await asyncio.gather(wait(2))
            await asyncio.wait_for(wait(3), timeout=60)
        finally:
            stood.append(-1)
        await wait(4)
        return [value]

    rig = bench.lifted(lookup)
    rig.process(record(1))
    (task,) = bench.tasks()
    for gate in gates[: max(place - 1, 0)]:
        gate.set_result(None)
    for _ in range(12 if place else 0):
        rig.mailbox.let_loop_turn()
    assert [number for number in stood if number > 0] == list(range(1, place + 1))

    task.cancel()
    rig.operator.end_input()

    assert isinstance(cause(rig), asyncio.CancelledError)
    assert (len(rig.operator), task.cancelled()) == (0, True)


def test_a_coroutine_that_answers_a_cancellation_is_heard_b9(bench: Bench) -> None:
    async def stubborn(value: int) -> list[Any]:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return [f"{value}, in spite of it"]
        return []

    rig = bench.lifted(stubborn)
    rig.process(record(1))
    rig.mailbox.let_loop_turn()
    (task,) = bench.tasks()

    task.cancel()
    rig.operator.end_input()

    assert (rig.values(), rig.failures) == (["1, in spite of it"], [])


@pytest.mark.parametrize("answer", [None, "text", 7, {"a": 1}])
def test_a_coroutine_that_returns_no_list_fails_its_record_a35(bench: Bench, answer: Any) -> None:
    async def wrong(value: int) -> list[Any]:
        return answer  # type: ignore[no-any-return]

    rig = bench.lifted(wrong)
    rig.process(record(1))
    rig.operator.end_input()

    assert isinstance(cause(rig), TypeError)


@pytest.mark.parametrize("answer", [None, [1], "text"])
def test_a_function_that_is_not_asynchronous_fails_the_task_at_its_call_a34(
    bench: Bench, answer: Any
) -> None:
    def plain(value: int) -> Any:
        return answer

    rig = bench.lifted(plain)
    with pytest.raises(CallbackFailed, match="invoke"):
        rig.process(record(1))


def test_a_timeout_fails_the_record_and_cancels_its_task_a44(bench: Bench) -> None:
    rig = bench.lifted(for_ever, timeout_ms=1)
    rig.process(record(1))
    (task,) = bench.tasks()

    rig.operator.end_input()
    rig.mailbox.let_loop_turn()
    assert task.cancelled()

    assert isinstance(cause(rig), CallTimedOut)
    assert rig.happened == [("called", 1), ("timeout", 1)]


def test_a_timeout_may_be_answered_by_a_substitute_a45(bench: Bench) -> None:
    rig = bench.lifted(for_ever, timeout_ms=1, on_timeout=lambda value: [f"default of {value}"])
    rig.process(record(1))
    rig.operator.end_input()

    assert (rig.values(), rig.failures) == (["default of 1"], [])


def test_a_substitute_that_raises_fails_the_task_a47(bench: Bench) -> None:
    def burst(value: int) -> list[Any]:
        raise ArithmeticError

    rig = bench.lifted(for_ever, timeout_ms=1, on_timeout=burst)
    rig.process(record(1))

    with pytest.raises(CallbackFailed, match="timeout"):
        rig.operator.end_input()
    bench.close_after_failure(rig)


def test_a_substitute_that_is_no_list_fails_the_task_a35_a47(bench: Bench) -> None:
    rig = bench.lifted(for_ever, timeout_ms=1, on_timeout=lambda _: None)
    rig.process(record(1))

    with pytest.raises(CallbackFailed, match="timeout") as raised:
        rig.operator.end_input()
    bench.close_after_failure(rig)

    assert isinstance(raised.value.__cause__, TypeError)


def test_each_attempt_is_a_task_of_its_own_and_the_timeout_cancels_the_last_a79(bench: Bench) -> None:
    started: list[asyncio.Task[Any] | None] = []

    async def lookup(value: int) -> list[Any]:
        started.append(asyncio.current_task())
        if len(started) == 1:
            raise ArithmeticError
        return await for_ever(value)

    rig = bench.lifted(lookup, timeout_ms=40, on_timeout=lambda _: ["s"], **RETRY)
    rig.process(record(1))
    while not rig.emitted:
        rig.executor.yield_()
    rig.mailbox.let_loop_turn()

    first, second = started
    assert first is not second
    assert second is not None
    assert (rig.values(), second.cancelled(), bench.tasks()) == (["s"], True, set())


def test_closing_the_operator_cancels_the_running_tasks_a69(bench: Bench) -> None:
    rig = bench.lifted(for_ever)
    rig.process(record(1))
    (task,) = bench.tasks()

    rig.operator.close()
    rig.mailbox.let_loop_turn()
    rig.run_mail()
    assert task.cancelled()

    assert (rig.emitted, rig.failures) == ([], [])
