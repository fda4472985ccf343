"""Claims about single steps, idleness, counting and periods of the mailbox loop: M27-M32, M36, M38-M40."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from reference_impl.errors import MailboxClosed, WrongState
from reference_impl.mailbox.loops import clock_of
from reference_impl.mailbox.mailbox import Mailbox, MailboxExecutor
from reference_impl.mailbox.processor import MailboxProcessor, PeriodTimer
from reference_impl.tests.rig import watched_loop


class HandClock:
    """A loop as far as the mailbox asks for one: time that a test moves, and callbacks that it lists.

    `run_forever` runs the next callback, and moves the clock by 10 ms before that.
    """

    def __init__(self) -> None:
        self.now_ms = 0
        self.callbacks: list[Callable[[], object]] = []

    def time(self) -> float:
        """In seconds, as asyncio has it."""
        return self.now_ms / 1000

    def run_forever(self) -> None:
        """One callback."""
        self.now_ms += 10
        if self.callbacks:
            self.callbacks.pop(0)()

    def stop(self) -> None:
        """It stops of itself."""

    def call_soon_threadsafe(self, callback: Callable[[], object]) -> None:
        """Behind the others."""
        self.callbacks.append(callback)


class Bench:
    """A mailbox loop on a clock moved by hand."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.mailbox = Mailbox(loop=self.clock)  # type: ignore[arg-type]  # all that it asks of a loop
        self.period = PeriodTimer(self.clock)  # type: ignore[arg-type]
        self.mailbox_processor = MailboxProcessor(self.mailbox)
        self.executor = MailboxExecutor(self.mailbox, 0)
        self.ran: list[str] = []

    def mail(self, what: str, *, takes_ms: int = 0) -> None:
        def action() -> None:
            self.clock.now_ms += takes_ms
            self.ran.append(what)

        self.executor.execute(action, what)

    def default_action(self) -> None:
        self.ran.append("default")


@pytest.fixture
def bench() -> Bench:
    return Bench()


# --------------------------------------------------------------------------------------------- steps


def test_a_step_is_one_mail_or_else_one_default_action_m32(bench: Bench) -> None:
    bench.mail("a")
    bench.mail("b")

    stepped = [bench.mailbox_processor.run_mailbox_step(bench.default_action) for _ in range(3)]

    assert stepped == [True, True, True]
    assert bench.ran == ["a", "b", "default"]


def test_a_step_with_nothing_to_do_does_nothing_and_waits_for_nothing_m32(bench: Bench) -> None:
    suspension = bench.mailbox_processor.suspend_default_action()

    assert not bench.mailbox_processor.run_mailbox_step(bench.default_action)

    suspension.resume()
    assert bench.mailbox_processor.run_mailbox_step(bench.default_action)
    assert bench.ran == ["default"]


def test_a_single_turn_is_at_most_one_mail_and_one_default_action_m32(bench: Bench) -> None:
    bench.mail("a")
    bench.mail("b")

    bench.mailbox_processor.run_single_mailbox_loop(bench.default_action)
    assert bench.ran == ["a", "default"]

    bench.mailbox_processor.run_single_mailbox_loop(bench.default_action)
    bench.mailbox_processor.run_single_mailbox_loop(bench.default_action)
    assert bench.ran == ["a", "default", "b", "default", "default"]


def test_a_single_turn_of_a_suspended_default_action_waits_for_nothing_m32(bench: Bench) -> None:
    bench.mailbox_processor.suspend_default_action()
    bench.mail("a")

    bench.mailbox_processor.run_single_mailbox_loop(bench.default_action)
    bench.mailbox_processor.run_single_mailbox_loop(bench.default_action)

    assert bench.ran == ["a"]
    assert bench.clock.now_ms == 0


def test_a_mail_that_suspends_ends_its_turn_without_a_default_action_m31_m32(bench: Bench) -> None:
    bench.mailbox_processor.suspend()

    bench.mailbox_processor.run_single_mailbox_loop(bench.default_action)

    assert bench.ran == []


def test_nothing_steps_once_all_is_finished_m33(bench: Bench) -> None:
    bench.mailbox_processor.all_actions_completed()
    assert bench.mailbox_processor.run_mailbox_step(bench.default_action)
    bench.mail("late")

    assert not bench.mailbox_processor.run_mailbox_step(bench.default_action)
    bench.mailbox_processor.run_single_mailbox_loop(bench.default_action)
    bench.mailbox_processor.run_mailbox_loop(bench.default_action)

    assert bench.ran == []
    assert len(bench.mailbox) == 1


_WAYS = (
    MailboxProcessor.run_mailbox_loop,
    MailboxProcessor.run_mailbox_step,
    MailboxProcessor.run_single_mailbox_loop,
)
EVERY_WAY = pytest.mark.parametrize("way", _WAYS)


@EVERY_WAY
def test_a_foreign_thread_cannot_run_the_loop_m29(
    bench: Bench, way: Callable[[MailboxProcessor, Callable[[], None]], object]
) -> None:
    raised: list[WrongState] = []

    def misuse() -> None:
        try:
            way(bench.mailbox_processor, bench.default_action)
        except WrongState as error:
            raised.append(error)

    thread = threading.Thread(target=misuse)
    thread.start()
    thread.join(timeout=60)

    assert "own thread" in str(raised[0])
    assert bench.ran == []


@EVERY_WAY
def test_no_way_to_run_the_loop_takes_a_mailbox_that_is_not_open_m29(
    bench: Bench, way: Callable[[MailboxProcessor, Callable[[], None]], object]
) -> None:
    bench.mailbox_processor.prepare_close()

    with pytest.raises(WrongState, match="must be open"):
        way(bench.mailbox_processor, bench.default_action)


def test_a_leftover_batch_makes_new_mail_wait_one_turn_m31(bench: Bench) -> None:
    """M11's exception: what was put while the loop was left waits behind one default action."""
    bench.executor.execute(bench.mailbox_processor.suspend, "suspend")
    bench.mail("a")
    bench.mailbox_processor.run_mailbox_loop(bench.default_action)
    bench.mail("b")
    assert bench.ran == []

    def once() -> None:
        bench.default_action()
        bench.mailbox_processor.suspend()

    bench.mailbox_processor.run_mailbox_loop(once)
    assert bench.ran == ["a", "default"]

    bench.mailbox_processor.run_mailbox_loop(once)
    assert bench.ran == ["a", "default", "b", "default"]


def test_urgent_mail_opens_a_leftover_batch_in_the_loop_too_m11_m31(bench: Bench) -> None:
    bench.executor.execute(bench.mailbox_processor.suspend, "suspend")
    bench.mail("a")
    bench.mailbox_processor.run_mailbox_loop(bench.default_action)
    bench.mail("b")
    MailboxExecutor(bench.mailbox, 0, urgent=True).execute(lambda: bench.ran.append("u"), "u")

    bench.mailbox_processor.run_mailbox_loop(bench.mailbox_processor.suspend)

    assert bench.ran == ["u", "a", "b"]


def test_control_mail_is_seen_by_every_yield_m34(bench: Bench) -> None:
    bench.mailbox_processor.all_actions_completed()

    assert MailboxExecutor(bench.mailbox, 1_000).try_yield()

    assert bench.mailbox_processor.suspended


def test_a_mail_that_closes_the_mailbox_ends_the_loop_with_an_error_m3(bench: Bench) -> None:
    bench.executor.execute(lambda: bench.ran.extend(m.what for m in bench.mailbox.close()), "close")
    bench.mail("a")

    with pytest.raises(MailboxClosed, match="no mail to give"):
        bench.mailbox_processor.run_mailbox_loop(bench.default_action)

    assert bench.ran == ["a"]  # returned by the close, not run


def test_urgent_mail_that_a_mail_puts_comes_next_in_its_batch_m16_m31(bench: Bench) -> None:
    urgent = MailboxExecutor(bench.mailbox, 0, urgent=True)
    bench.executor.execute(lambda: urgent.execute(lambda: bench.ran.append("u"), "u"), "puts u")
    bench.mail("a")

    bench.mailbox_processor.run_mailbox_step(bench.default_action)
    bench.mailbox_processor.suspend_default_action()
    bench.clock.callbacks.append(bench.mailbox_processor.suspend)
    bench.mailbox_processor.run_mailbox_loop(bench.default_action)

    assert bench.ran == ["u", "a"]


# ------------------------------------------------------------------------------------------ idleness


def test_idle_is_a_resting_default_action_no_mail_and_an_open_mailbox_m27(bench: Bench) -> None:
    assert not bench.mailbox_processor.is_idle()  # just started

    suspension = bench.mailbox_processor.suspend_default_action()
    assert bench.mailbox_processor.is_idle()

    bench.mail("a")
    assert not bench.mailbox_processor.is_idle()

    bench.mailbox_processor.run_mailbox_step(bench.default_action)
    assert bench.mailbox_processor.is_idle()

    suspension.resume()
    assert not bench.mailbox_processor.is_idle()


def test_a_mailbox_that_is_quiesced_is_not_idle_m27(bench: Bench) -> None:
    bench.mailbox_processor.suspend_default_action()

    bench.mailbox_processor.prepare_close()

    assert not bench.mailbox_processor.is_idle()


# ---------------------------------------------------------------------------------- counting, periods


def test_mail_is_counted_before_it_runs_and_that_of_a_yield_is_not_m40(bench: Bench) -> None:
    counts: list[int] = []

    def note() -> None:
        counts.append(bench.mailbox_processor.mails_run)

    def burst() -> None:
        raise ArithmeticError

    bench.executor.execute(note, "first")
    bench.executor.execute(bench.executor.yield_, "yields")
    bench.executor.execute(note, "in the yield")
    bench.executor.execute(note, "last")
    bench.executor.execute(burst, "burst")

    with pytest.raises(ArithmeticError):
        bench.mailbox_processor.run_mailbox_loop(bench.default_action)

    assert counts == [1, 2, 3]
    assert bench.mailbox_processor.mails_run == 4


def test_drained_mail_is_counted_m38_m40(bench: Bench) -> None:
    bench.mail("a")
    bench.mail("b")

    bench.mailbox_processor.drain()

    assert bench.mailbox_processor.mails_run == 2


def test_after_the_quiesce_a_drain_is_the_last_m38(bench: Bench) -> None:
    bench.executor.execute(lambda: bench.mail("too late"), "first")
    bench.mailbox_processor.prepare_close()

    with pytest.raises(MailboxClosed):
        bench.mailbox_processor.drain()

    assert len(bench.mailbox) == 0


def test_a_period_counts_the_rest_and_not_the_mail_m39(bench: Bench) -> None:
    """Each wait is 10 ms on this clock, and the default action goes on for 3; the mails take 7 and 5 ms."""

    def default_action() -> None:
        bench.default_action()
        suspension = bench.mailbox_processor.suspend_default_action(bench.period)
        bench.clock.now_ms += 3
        bench.mail("at once", takes_ms=7)
        bench.clock.callbacks += [lambda: bench.mail("later", takes_ms=5), suspension.resume]

    bench.mailbox_processor.run_mailbox_step(default_action)
    bench.mailbox_processor.run_mailbox_loop(bench.mailbox_processor.all_actions_completed)

    assert bench.ran == ["default", "at once", "later"]
    assert bench.clock.now_ms == 3 + 7 + 10 + 5 + 10
    assert bench.period.total_us == 23_000


def test_a_period_is_not_restarted_once_a_mail_has_resumed_m39(bench: Bench) -> None:
    suspension = bench.mailbox_processor.suspend_default_action(bench.period)
    bench.clock.now_ms += 3
    bench.executor.execute(suspension.resume, "resume")
    bench.mailbox_processor.run_mailbox_step(bench.default_action)

    bench.clock.now_ms += 100
    bench.period.end()

    assert bench.period.total_us == 3_000


def test_a_mail_that_resumes_and_suspends_again_starts_the_newer_period_m36_m39(bench: Bench) -> None:
    newer = PeriodTimer(bench.clock)  # type: ignore[arg-type]  # all that it asks of a loop
    first = bench.mailbox_processor.suspend_default_action(bench.period)

    def change() -> None:
        first.resume()
        bench.mailbox_processor.suspend_default_action(newer)
        bench.clock.now_ms += 7

    bench.executor.execute(change, "change")
    bench.mailbox_processor.run_mailbox_step(bench.default_action)
    bench.clock.now_ms += 4
    first.resume()
    newer.end()

    assert (bench.period.total_us, newer.total_us) == (0, 4_000)


def test_resuming_at_once_ends_the_period_m39(bench: Bench) -> None:
    suspension = bench.mailbox_processor.suspend_default_action(bench.period)
    bench.clock.now_ms += 2

    suspension.resume()
    suspension.resume()

    assert bench.period.total_us == 2_000


@pytest.fixture
def real() -> Iterator[Mailbox]:
    with watched_loop() as loop:
        yield Mailbox(loop=loop)


def test_a_resting_loop_waits_and_does_not_spin_m30(real: Mailbox) -> None:
    """FLINK-23220. The default action runs once a resumption, whatever the number of mails between."""
    loop = real._loop
    mailbox_processor, executor = MailboxProcessor(real), MailboxExecutor(real, 0)
    ran: list[str] = []
    period = PeriodTimer(loop)

    def default_action() -> None:
        ran.append("default")
        if ran.count("default") == 3:
            mailbox_processor.all_actions_completed()
            return
        suspension = mailbox_processor.suspend_default_action(period)

        def mail() -> None:
            loop.call_later(0.002, suspension.resume)

        loop.call_later(0.002, executor.execute, mail, "mail")

    now_ns = clock_of(loop)
    began_ns = now_ns()
    mailbox_processor.run_mailbox_loop(default_action)

    assert ran == ["default"] * 3
    assert mailbox_processor.mails_run == 2 + 2 + 1  # two mails, two resumptions, the end
    assert 0 < period.total_us <= (now_ns() - began_ns) // 1_000 + 1_000
