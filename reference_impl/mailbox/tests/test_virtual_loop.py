"""Claims about virtual time: T9, A49; and that it is an asyncio loop in all that operators and clients ask of one."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.errors import SimulationStuck, WrongState
from reference_impl.mailbox.loops import VirtualLoop, virtual_loop
from reference_impl.tests.rig import quickly


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with virtual_loop() as loop:
        yield loop


# --------------------------------------------------------------------------------------------------- time


def test_a_sleep_takes_its_time_and_no_more(loop: VirtualLoop) -> None:
    async def sleep() -> list[int]:
        instants = []
        for seconds in (0, 0.001, 3600, 0.0004, 1e6):
            await asyncio.sleep(seconds)
            instants.append(loop.now_ms())
        return instants

    assert loop.run_until_complete(sleep()) == [0, 1, 3_600_001, 3_600_002, 1_003_600_002]


@pytest.mark.parametrize("start_ms", [0, 2**40, 2**53 + 1, 2**62 + 3, -(2**63)])
def test_time_is_exact_wherever_it_starts_t9(start_ms: int) -> None:
    """T9: whole milliseconds; seconds in floating point are for asyncio alone."""
    with virtual_loop(start_ms=start_ms) as loop:
        instants: list[int] = []
        for delay_ms in (7, 1, 3):
            loop.call_later(delay_ms / 1000, lambda: instants.append(loop.now_ms() - start_ms))
        loop.call_later(0.008, loop.stop)

        loop.run_forever()

        assert instants == [1, 3, 7]
        assert (loop.now_ms(), loop.now_ns()) == (start_ms + 8, (start_ms + 8) * 1_000_000)


def test_time_stands_while_anything_can_run(loop: VirtualLoop) -> None:
    instants: list[int] = []

    def again(left: int) -> None:
        instants.append(loop.now_ms())
        loop.call_soon(again, left - 1) if left else None

    loop.call_soon(again, 500)
    loop.call_later(0.001, loop.stop)
    loop.run_forever()

    assert (set(instants), loop.now_ms()) == ({0}, 1)


def test_a_clock_can_be_advanced_by_hand_without_running_anything_t9(loop: VirtualLoop) -> None:
    ran: list[str] = []
    loop.call_later(0.002, ran.append, "b")
    loop.call_later(0.001, ran.append, "a")
    cancelled = loop.call_later(0.001, ran.append, "never")
    cancelled.cancel()

    loop.advance(5)
    assert (loop.now_ms(), loop.next_due_ms(), ran) == (5, None, [])
    loop.run_ready()

    assert (ran, cancelled.cancelled()) == (["a", "b"], True)


def test_a_clock_never_goes_back(loop: VirtualLoop) -> None:
    loop.advance(9)
    loop.advance(4)

    assert loop.now_ms() == 9


def test_a_cancelled_timer_does_not_move_the_clock(loop: VirtualLoop) -> None:
    loop.call_later(5, lambda: None).cancel()
    assert loop.next_due_ms() is None
    handle = loop.call_later(0.003, loop.stop)

    loop.run_forever()

    assert (loop.now_ms(), handle.when()) == (3, 0.003)


# -------------------------------------------------------------------------------------------------- order


def test_callbacks_run_in_the_order_in_which_they_were_asked_for(loop: VirtualLoop) -> None:
    ran: list[int] = []
    for number in range(5):
        loop.call_soon(ran.append, number)
    loop.call_soon(loop.stop)

    loop.run_forever()

    assert ran == [0, 1, 2, 3, 4]


def test_what_a_turn_makes_ready_runs_in_the_next_one(loop: VirtualLoop) -> None:
    ran: list[str] = []

    def first() -> None:
        ran.append("a")
        loop.call_soon(ran.append, "c")

    loop.call_soon(first)
    loop.call_soon(ran.append, "b")

    loop.run_ready()
    assert ran == ["a", "b"]
    loop.run_ready()

    assert ran == ["a", "b", "c"]


@quickly
@given(delays_ms=st.lists(st.integers(0, 5), max_size=12))
def test_timers_run_by_instant_and_then_by_registration_t9(delays_ms: list[int]) -> None:
    with virtual_loop() as loop:
        ran: list[tuple[int, int]] = []
        for number, delay_ms in enumerate(delays_ms):
            loop.call_later(delay_ms / 1000, ran.append, (delay_ms, number))
        loop.call_later(0.006, loop.stop)
        loop.run_forever()

    assert ran == sorted(ran)
    assert len(ran) == len(delays_ms)


def test_the_choice_what_runs_next_can_reach_every_order() -> None:
    def order(picks: tuple[int, ...]) -> tuple[str, ...]:
        left = list(picks)
        asked: list[int] = []

        def pick(ready: int) -> int:
            asked.append(ready)
            return left.pop(0)

        with virtual_loop(pick=pick) as loop:
            ran: list[str] = []
            for what in "abc":
                loop.call_soon(ran.append, what)
            loop.run_ready()
        assert asked == [3, 2]
        return tuple(ran)

    reached = {order((first, second)) for first in range(3) for second in range(2)}

    assert reached == set(permutations("abc"))


def test_without_a_choice_to_make_nobody_is_asked() -> None:
    with virtual_loop(pick=lambda _: pytest.fail("asked")) as loop:
        for _ in range(3):
            loop.call_soon(loop.stop)
            loop.run_forever()


# ------------------------------------------------------------------------------------- futures and tasks


def test_futures_tasks_and_gatherings_work_as_on_any_loop(loop: VirtualLoop) -> None:
    async def child(number: int) -> int:
        await asyncio.sleep(number / 1000)
        return number

    async def parent() -> list[int]:
        assert asyncio.get_running_loop() is loop
        future = loop.create_future()
        loop.call_later(0.002, future.set_result, 9)
        return [*await asyncio.gather(child(3), child(1)), await future]

    assert loop.run_until_complete(parent()) == [3, 1, 9]
    assert (loop.now_ms(), loop.is_running()) == (3, False)


def test_a_wait_with_a_limit_ends_at_its_limit(loop: VirtualLoop) -> None:
    async def waits() -> int:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), timeout=0.25)
        return loop.now_ms()

    assert loop.run_until_complete(waits()) == 250


def test_a_cancelled_task_runs_its_clean_up(loop: VirtualLoop) -> None:
    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.004)

    async def cancel() -> bool:
        task = loop.create_task(waits())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert loop.run_until_complete(cancel())
    assert loop.now_ms() == 4


def test_a_context_goes_with_its_callback_and_its_task(loop: VirtualLoop) -> None:
    where: ContextVar[str] = ContextVar("where", default="outside")
    seen: list[str] = []

    async def child() -> None:
        seen.append(where.get())
        where.set("inside")

    async def parent() -> None:
        where.set("parent")
        await loop.create_task(child())
        seen.append(where.get())

    loop.run_until_complete(parent())

    assert (seen, where.get()) == (["parent", "parent"], "outside")


def test_tasks_are_named_in_the_order_of_their_creation_on_every_run() -> None:
    def names() -> list[str]:
        with virtual_loop() as loop:

            async def nothing() -> None: ...

            tasks = [loop.create_task(nothing(), name=name) for name in (None, "mine", None)]
            loop.run_until_complete(asyncio.gather(*tasks))
            return [task.get_name() for task in tasks]

    assert names() == names() == ["1", "mine", "3"]


def test_the_result_and_the_error_of_what_was_awaited_come_out(loop: VirtualLoop) -> None:
    async def burst() -> None:
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        loop.run_until_complete(burst())


# ------------------------------------------------------------------------------------------ what goes wrong


def test_where_a_real_loop_would_wait_for_ever_the_error_lists_who_waits(loop: VirtualLoop) -> None:
    async def first() -> None:
        await asyncio.Event().wait()

    async def second() -> None:
        await loop.create_future()

    async def both() -> None:
        await asyncio.gather(loop.create_task(first(), name="A"), loop.create_task(second(), name="B"))

    loop.advance(70)
    with pytest.raises(SimulationStuck, match="stuck at 70 ms: nothing is ready") as stuck:
        loop.run_until_complete(both())

    listed = "; ".join(stuck.value.waiting)
    assert all(name in listed for name in ("task A", "task B", "first", "second"))
    assert listed in str(stuck.value)


def test_a_loop_that_is_stopped_before_what_it_runs_for_is_done_says_so(loop: VirtualLoop) -> None:
    loop.call_soon(loop.stop)
    future = loop.create_future()

    with pytest.raises(RuntimeError, match="stopped before"):
        loop.run_until_complete(future)


def test_stuck_without_any_task_says_so(loop: VirtualLoop) -> None:
    with pytest.raises(SimulationStuck, match="no task"):
        loop.run_forever()


def test_what_a_callback_raises_ends_the_run(loop: VirtualLoop) -> None:
    def burst() -> None:
        raise ArithmeticError

    loop.call_soon(burst)

    with pytest.raises(ArithmeticError):
        loop.run_forever()
    assert not loop.is_running()


def test_what_asyncio_would_only_log_ends_the_run(loop: VirtualLoop) -> None:
    def burst(_: Any) -> None:
        raise ArithmeticError

    async def nothing() -> None: ...

    loop.create_task(nothing()).add_done_callback(burst)
    with pytest.raises(ArithmeticError):
        loop.run_forever()

    loop.call_soon(loop.call_exception_handler, {"message": "lost"})
    with pytest.raises(RuntimeError, match="lost"):
        loop.run_forever()


def test_a_foreign_thread_cannot_enter_virtual_time(loop: VirtualLoop) -> None:
    raised: list[Exception] = []

    def enter() -> None:
        try:
            loop.call_soon_threadsafe(print)
        except WrongState as error:
            raised.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join(timeout=60)

    assert [type(error) for error in raised] == [WrongState]
    loop.call_soon_threadsafe(loop.stop)
    loop.run_forever()


USES: dict[str, Callable[[VirtualLoop], Any]] = {
    "call_soon": lambda loop: loop.call_soon(print),
    "call_later": lambda loop: loop.call_later(1, print),
    "call_at": lambda loop: loop.call_at(1, print),
    "run_forever": VirtualLoop.run_forever,
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_closed_loop_refuses_everything(use: Callable[[VirtualLoop], Any]) -> None:
    with virtual_loop() as loop:
        loop.call_later(1, pytest.fail, "ran")
    assert loop.is_closed()

    with pytest.raises(RuntimeError, match="closed"):
        use(loop)


@pytest.mark.parametrize("use", [VirtualLoop.run_forever, VirtualLoop.close])
def test_a_running_loop_is_neither_run_nor_closed(
    loop: VirtualLoop, use: Callable[[VirtualLoop], None]
) -> None:
    loop.call_soon(use, loop)

    with pytest.raises(RuntimeError, match="running"):
        loop.run_forever()


def test_in_one_turn_what_is_due_now_runs_too_t9(loop: VirtualLoop) -> None:
    """T9: as in asyncio's one turn; else a loop that never goes idle would starve its timers."""
    ran: list[str] = []
    loop.call_soon(ran.append, "ready")
    loop.call_later(0, ran.append, "due")
    loop.call_later(0.001, ran.append, "later")

    loop.stop()
    loop.run_forever()

    assert (ran, loop.now_ms()) == (["ready", "due"], 0)


def test_a_task_that_nobody_holds_goes_on_whenever_python_collects_garbage() -> None:
    """Asyncio keeps none: a task that waits for what only it knows is a cycle, destroyed at any moment."""

    async def waits(loop: VirtualLoop) -> None:
        await loop.create_future()

    async def main(loop: VirtualLoop) -> int:
        asyncio.ensure_future(waits(loop))  # noqa: RUF006 - as users do
        await asyncio.sleep(0)
        gc.collect()
        await asyncio.sleep(1)
        return len(loop.unfinished_tasks())

    with virtual_loop() as loop:
        assert loop.run_until_complete(main(loop)) == 2
