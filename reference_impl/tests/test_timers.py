"""Claims about timers: T2-T7, and about the loop that keeps their time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from reference_impl.loops import now_ms
from reference_impl.mailbox import Mailbox
from reference_impl.mailbox_executor import MailboxExecutor
from reference_impl.tests.rig import watched_loop
from reference_impl.timers import Timers


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


@pytest.fixture
def bench() -> Iterator[Bench]:
    with watched_loop() as loop:
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

    timer.cancel()
    timer.cancel()
    bench.turn()

    assert (len(bench.mailbox), len(bench.timers)) == (0, 0)


def test_a_cancellation_after_the_firing_comes_too_late_for_its_mail_t3(bench: Bench) -> None:
    timer = bench.timers.register(0, lambda: bench.fired.append("a"))
    bench.turn()

    timer.cancel()
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


def test_a_negative_delay_is_refused(bench: Bench) -> None:
    with pytest.raises(ValueError, match="-1 ms"):
        bench.register("a", delay_ms=-1)


def test_milliseconds_do_not_suffer_from_binary_fractions() -> None:
    class Loop(asyncio.SelectorEventLoop):
        def time(self) -> float:
            return 1.001

    loop = Loop()
    try:
        assert now_ms(loop) == 1001
    finally:
        loop.close()


def test_a_loop_that_closes_cancels_what_is_left_and_closes_its_generators() -> None:
    ended: list[str] = []

    async def linger() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("task")

    with watched_loop() as loop:
        task = loop.create_task(linger())
        loop.call_soon(loop.stop)
        loop.run_forever()

    assert (ended, task.cancelled(), loop.is_closed()) == (["task"], True, True)
