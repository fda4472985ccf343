"""Claims about the loop of a task: M28-M36, M38."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from reference_impl.errors import MailboxClosed, WrongState
from reference_impl.mailbox.mailbox import Mailbox, MailboxExecutor
from reference_impl.mailbox.processor import EVENT_LOOP_TURN_EVERY, MailboxProcessor
from reference_impl.tests.rig import watched_loop


class Bench:
    """A mailbox loop whose default action notes that it ran and leaves after `turns`."""

    def __init__(self, mailbox: Mailbox) -> None:
        self.mailbox = mailbox
        self.executor = MailboxExecutor(mailbox, 0)
        self.mailbox_processor = MailboxProcessor(mailbox)
        self.ran: list[str] = []

    def mail(self, what: str) -> None:
        self.executor.execute(lambda: self.ran.append(what), what)

    def run(self, *, turns: int = 1) -> None:
        def default_action() -> None:
            self.ran.append("default")
            if self.ran.count("default") >= turns:
                self.mailbox_processor.all_actions_completed()

        self.mailbox_processor.run_mailbox_loop(default_action)


@pytest.fixture
def bench() -> Iterator[Bench]:
    with watched_loop() as loop:
        yield Bench(Mailbox(loop=loop))


def test_all_mail_runs_before_the_default_action_m31(bench: Bench) -> None:
    bench.mail("a")
    bench.mail("b")

    bench.run()

    assert bench.ran == ["a", "b", "default"]


def test_mail_that_keeps_putting_mail_does_not_starve_the_default_action_m13(bench: Bench) -> None:
    def again() -> None:
        bench.ran.append("mail")
        bench.executor.execute(again, "again")

    bench.executor.execute(again, "again")

    bench.run(turns=2)

    assert bench.ran[:4] == ["mail", "default", "mail", "default"]


def test_a_finished_loop_returns_at_once_m33(bench: Bench) -> None:
    bench.run()
    bench.ran.clear()

    bench.run()

    assert bench.ran == []


def test_a_suspended_loop_can_be_run_again_m33(bench: Bench) -> None:
    bench.mailbox_processor.suspend()
    bench.mail("a")
    bench.run()
    assert bench.ran == []  # the suspension came first, and is checked between two mails

    bench.run()

    assert bench.ran == ["a", "default"]


def test_a_loop_needs_an_open_mailbox_m29(bench: Bench) -> None:
    bench.mailbox.quiesce()

    with pytest.raises(WrongState, match="must be open"):
        bench.run()


def test_control_of_a_closed_mailbox_is_dropped_in_silence_m34(bench: Bench) -> None:
    bench.mailbox.close()

    bench.mailbox_processor.all_actions_completed()
    bench.mailbox_processor.suspend()

    assert len(bench.mailbox) == 0


def test_what_a_mail_raises_leaves_the_loop(bench: Bench) -> None:
    def burst() -> None:
        raise ArithmeticError

    bench.executor.execute(burst, "burst")

    with pytest.raises(ArithmeticError):
        bench.run()
    assert bench.ran == []


def test_a_reported_error_overtakes_other_mail_m35(bench: Bench) -> None:
    bench.mail("a")
    bench.mailbox_processor.report_throwable(ArithmeticError())

    with pytest.raises(ArithmeticError):
        bench.run()
    assert bench.ran == []


def test_an_error_reported_to_a_closed_mailbox_is_not_lost_m35(bench: Bench) -> None:
    bench.mailbox.close()

    with pytest.raises(MailboxClosed) as raised:
        bench.mailbox_processor.report_throwable(ArithmeticError())

    assert isinstance(raised.value.__cause__, ArithmeticError)


def test_a_suspended_default_action_waits_for_its_resumption_m30(bench: Bench) -> None:
    def default_action() -> None:
        bench.ran.append("default")
        if bench.ran.count("default") == 2:
            bench.mailbox_processor.all_actions_completed()
            return
        suspension = bench.mailbox_processor.suspend_default_action()

        def mail() -> None:
            bench.ran.append("mail")
            bench.mailbox._loop.call_soon(suspension.resume)  # while the loop waits again

        bench.mailbox._loop.call_later(0.001, bench.executor.execute, mail, "mail")

    bench.mailbox_processor.run_mailbox_loop(default_action)

    assert bench.ran == ["default", "mail", "default"]


def test_a_foreign_thread_may_resume_the_default_action_m36(bench: Bench) -> None:
    def default_action() -> None:
        bench.ran.append("default")
        if bench.ran.count("default") == 2:
            bench.mailbox_processor.all_actions_completed()
            return
        suspension = bench.mailbox_processor.suspend_default_action()
        threading.Thread(target=suspension.resume).start()

    bench.mailbox_processor.run_mailbox_loop(default_action)

    assert bench.ran == ["default", "default"]


def test_a_stale_suspension_does_not_end_a_newer_one_m36(bench: Bench) -> None:
    stale = bench.mailbox_processor.suspend_default_action()
    stale.resume()
    stale.resume()
    bench.mailbox_processor.suspend_default_action()

    stale.resume()

    with pytest.raises(WrongState, match="only while not suspended"):
        bench.mailbox_processor.suspend_default_action()


def test_resuming_after_the_close_is_harmless_m36(bench: Bench) -> None:
    suspension = bench.mailbox_processor.suspend_default_action()
    bench.mailbox.close()
    thread = threading.Thread(target=suspension.resume)

    thread.start()
    thread.join(timeout=60)
    suspension.resume()

    bench.mailbox_processor.suspend_default_action()  # the last one counted: no suspension is in force


def test_the_event_loop_gets_its_turn_though_the_default_action_never_waits(bench: Bench) -> None:
    bench.mailbox._loop.call_soon(bench.mail, "mail")

    bench.run(turns=EVENT_LOOP_TURN_EVERY + 1)

    assert "mail" in bench.ran


def test_a_drain_runs_what_is_there_and_not_what_that_puts_m38(bench: Bench) -> None:
    bench.executor.execute(lambda: bench.mail("later"), "first")

    bench.mailbox_processor.drain()
    assert bench.ran == []

    bench.mailbox_processor.drain()
    assert bench.ran == ["later"]
