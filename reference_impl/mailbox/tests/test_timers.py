"""Claims about timers: T1-T9, and about the real loop that keeps their time."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from math import floor

import pytest

from reference_impl.mailbox.loops import NS_PER_MS, clock_of, virtual_loop
from reference_impl.mailbox.mailbox import Mailbox, MailboxExecutor
from reference_impl.mailbox.processor import MailboxProcessor
from reference_impl.mailbox.timers import Timers, cancel
from reference_impl.tests.rig import watched_loop


class Bench:
    """Timers, and what they did."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.mailbox = Mailbox(loop=loop)
        self.executor = MailboxExecutor(self.mailbox, 0)
        self.timers = Timers(loop, self.executor)
        self.fired: list[str] = []

    def register(self, what: str, delay_ms: int = 0) -> None:
        self.timers.register(delay_ms=delay_ms, callback=lambda: self.fired.append(what))

    def turn(self) -> None:
        """Let timers of no delay put their mail."""
        self.mailbox.let_loop_turn()


@pytest.fixture(params=["real", "virtual"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    with watched_loop(virtual=request.param == "virtual") as loop:
        yield Bench(loop)


@pytest.fixture
def virtual() -> Iterator[Bench]:
    with watched_loop(virtual=True) as loop:
        yield Bench(loop)


def test_a_callback_runs_as_mail_t2(bench: Bench) -> None:
    bench.register("a")
    bench.turn()
    assert (bench.fired, len(bench.mailbox)) == ([], 1)

    bench.executor.yield_()

    assert bench.fired == ["a"]


def test_a_timer_does_not_fire_early_t1(bench: Bench) -> None:
    before_us = round(bench.loop.time() * 1_000_000)
    bench.register("a", delay_ms=2)

    bench.executor.yield_()

    assert round(bench.loop.time() * 1_000_000) - before_us >= 2_000


def test_a_cancelled_timer_does_not_fire_and_does_not_count_t3(bench: Bench) -> None:
    timer = bench.timers.register(0, lambda: bench.fired.append("a"))

    cancel(timer)
    cancel(timer)
    bench.turn()

    assert (len(bench.mailbox), len(bench.timers)) == (0, 0)


def test_a_cancellation_after_the_firing_comes_too_late_for_its_mail_t3(bench: Bench) -> None:
    timer = bench.timers.register(0, lambda: bench.fired.append("a"))
    bench.turn()

    cancel(timer)
    bench.executor.yield_()

    assert bench.fired == ["a"]


def test_a_timer_that_fires_into_a_closed_mailbox_is_no_failure_t5(bench: Bench) -> None:
    bench.register("a")
    bench.mailbox.close()

    bench.turn()  # a callback that raises fails the test

    assert (bench.fired, len(bench.timers)) == ([], 0)


def test_quiesced_timers_fire_no_more_t6_t7(bench: Bench) -> None:
    bench.register("pending")
    bench.timers.quiesce()
    bench.register("late")

    bench.turn()

    assert (len(bench.mailbox), len(bench.timers)) == (0, 0)


def test_mail_of_a_timer_that_fired_before_the_quiesce_still_runs_t6(bench: Bench) -> None:
    bench.register("a")
    bench.turn()

    bench.timers.quiesce()
    bench.executor.yield_()

    assert bench.fired == ["a"]


def test_timers_fire_in_the_order_of_their_instants_and_then_of_registration_t9(virtual: Bench) -> None:
    for what, delay_ms in (("c", 2), ("a", 0), ("d", 2), ("b", 1)):
        virtual.register(what, delay_ms)

    for _ in range(4):
        virtual.executor.yield_()

    assert virtual.fired == ["a", "b", "c", "d"]


def test_a_timer_is_due_when_its_instant_comes_and_not_a_millisecond_later_t1_t9(virtual: Bench) -> None:
    instants: list[int] = []
    for delay_ms in (0, 5, 7):
        virtual.timers.register(delay_ms, lambda: instants.append(virtual.timers.now_ms()))

    for _ in range(3):
        virtual.executor.yield_()

    assert instants == [0, 5, 7]


def test_a_timer_that_a_callback_registers_for_now_fires_without_time_passing_t9(virtual: Bench) -> None:
    def register_another() -> None:
        virtual.register(f"at {virtual.timers.now_ms()}")

    virtual.timers.register(3, register_another)
    virtual.register("later", 4)
    for _ in range(3):
        virtual.executor.yield_()

    assert virtual.fired == ["at 3", "later"]


def test_what_a_callback_raises_fails_the_task_t4(bench: Bench) -> None:
    def burst() -> None:
        raise ArithmeticError

    bench.timers.register(0, burst)

    with pytest.raises(ArithmeticError):
        MailboxProcessor(bench.mailbox).run_mailbox_loop(bench.mailbox.let_loop_turn)


def test_cancelled_timers_are_not_kept_however_many_there_were_t3_b26(virtual: Bench) -> None:
    """B26: a timeout that is cancelled long before it is due must not keep its record."""
    for _ in range(1_000):
        cancel(virtual.timers.register(60_000, lambda: None))
    virtual.register("the last")

    alive = sum(
        type(thing) is list and len(thing) == 3 and thing[0] == 60_000 * NS_PER_MS
        for thing in gc.get_objects()
    )

    assert (len(virtual.timers), alive < 200) == (1, True)


def test_a_service_knows_when_its_next_timer_is_due_and_counts_no_cancelled_one_t3(virtual: Bench) -> None:
    assert virtual.timers.next_due_ms() is None
    early = virtual.timers.register(1, lambda: None)
    virtual.register("late", 10)
    assert virtual.timers.next_due_ms() == 1

    cancel(early)
    assert virtual.timers.next_due_ms() == 10
    virtual.executor.yield_()

    assert virtual.timers.next_due_ms() is None


def test_a_cancelled_earlier_timer_does_not_delay_or_hasten_the_others_t3(virtual: Bench) -> None:
    early = virtual.timers.register(1, lambda: virtual.fired.append("early"))
    virtual.register("late", 10)
    cancel(early)

    virtual.executor.yield_()

    assert (virtual.fired, virtual.timers.now_ms()) == (["late"], 10)


def test_a_negative_delay_is_refused(bench: Bench) -> None:
    with pytest.raises(ValueError, match="-1 ms"):
        bench.register("a", delay_ms=-1)


@pytest.mark.parametrize("start_ms", [1001, 2**53, 2**62])
def test_milliseconds_do_not_suffer_from_binary_fractions(start_ms: int) -> None:
    with virtual_loop(start_ms=start_ms) as loop:
        timers = Timers(loop, MailboxExecutor(Mailbox(loop=loop), 0))

        assert loop.now_ms() == timers.now_ms() == start_ms


def test_the_real_loops_milliseconds_are_those_of_its_own_clock() -> None:
    with watched_loop() as loop:
        before = floor(loop.time() * 1000)

        assert before <= clock_of(loop)() // NS_PER_MS <= floor(loop.time() * 1000) + 1


@pytest.mark.parametrize("open_loop", [watched_loop, virtual_loop])
def test_a_loop_that_closes_cancels_what_is_left_and_closes_its_generators(
    open_loop: Callable[[], AbstractContextManager[asyncio.AbstractEventLoop]],
) -> None:
    ended: list[str] = []

    async def linger() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("task")

    with open_loop() as loop:
        task = loop.create_task(linger())
        loop.call_soon(loop.stop)
        loop.run_forever()

    assert (ended, task.cancelled(), loop.is_closed()) == (["task"], True, True)
