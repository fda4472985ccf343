"""Claims about deferrable mail, submitted calls and cancelling: M8, M21, M23-M27, M37."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pytest

from reference_impl.errors import MailboxClosed, WrongState
from reference_impl.mailbox.mailbox import MIN_PRIORITY, Mail, Mailbox, MailboxExecutor
from reference_impl.mailbox.processor import MailboxProcessor
from reference_impl.tests.rig import watched_loop


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    with watched_loop() as loop:
        yield Mailbox(loop=loop)


class Operator:
    """Its place in the chain, and what ran of it."""

    def __init__(self, mailbox: Mailbox, place: int) -> None:
        self.ran: list[str] = []
        self.executor = MailboxExecutor(mailbox, place)
        self._later = MailboxExecutor(mailbox, place, deferrable=True)

    def mail(self, what: str, *, deferrable: bool = False) -> None:
        executor = self._later if deferrable else self.executor
        executor.execute(lambda: self.ran.append(what), what)


def test_mail_gets_the_priority_the_deferral_and_the_urgency_of_its_executor_m22(mailbox: Mailbox) -> None:
    ran: list[str] = []
    executor = MailboxExecutor(mailbox, 1, deferrable=True)
    urgent = MailboxExecutor(mailbox, 2, urgent=True)
    executor.execute(lambda: ran.append("a"), "a")
    executor.execute(lambda: ran.append("b"), "b")
    urgent.execute(lambda: ran.append("u"), "u")
    executor.yield_()

    for mail in mailbox.close():
        assert (mail.priority, mail.deferrable) == (1, True)
        mail.action()

    assert ran == ["u", "a", "b"]
    with pytest.raises(MailboxClosed, match="'late'"):
        executor.execute(lambda: None, "late")


def test_mail_put_by_a_callback_wakes_a_waiting_take_m9(mailbox: Mailbox) -> None:
    mailbox._loop.call_soon(MailboxExecutor(mailbox, 0).execute, lambda: None, "reply")

    assert mailbox.take().what == "reply"


# ---------------------------------------------------------------------------------------- deferrable


def test_an_operators_yield_never_runs_deferrable_mail_m8_m25(mailbox: Mailbox) -> None:
    """FLINK-35528: a continuation that puts itself again would run in the yield for ever."""
    operator = Operator(mailbox, 1)
    operator.mail("continue", deferrable=True)
    operator.mail("reply")

    assert operator.executor.try_yield()
    assert not operator.executor.try_yield()

    assert operator.ran == ["reply"]


def test_a_waiting_yield_is_not_ended_by_deferrable_mail_m8_m19(mailbox: Mailbox) -> None:
    operator = Operator(mailbox, 1)

    def put() -> None:
        operator.mail("continue", deferrable=True)
        mailbox._loop.call_soon(operator.mail, "reply")

    mailbox._loop.call_soon(put)
    operator.executor.yield_()

    assert operator.ran == ["reply"]


def test_an_operator_that_finishes_runs_its_deferrable_mail_in_order_m24(mailbox: Mailbox) -> None:
    """FLINK-39481: hidden from the finish too, the end of the data overtook the watermark."""
    upstream, own = Operator(mailbox, 0), Operator(mailbox, 1)
    upstream.mail("upstream")
    own.mail("continue", deferrable=True)
    own.mail("reply")

    while own.executor.try_yield_ignoring_deferrable():
        pass

    assert own.ran == ["continue", "reply"]
    assert upstream.ran == []


def test_a_take_that_sees_everything_sees_deferrable_mail_m8(mailbox: Mailbox) -> None:
    operator = Operator(mailbox, 1)
    operator.mail("continue", deferrable=True)

    MailboxExecutor(mailbox, MIN_PRIORITY).yield_()

    assert operator.ran == ["continue"]


def test_a_batch_gives_deferrable_mail_as_any_other_m10(mailbox: Mailbox) -> None:
    operator = Operator(mailbox, 1)
    operator.mail("continue", deferrable=True)
    mailbox.create_batch()

    taken = mailbox.try_take_from_batch()

    assert taken is not None
    assert taken.deferrable


def test_any_mail_is_a_reason_to_interrupt_m26(mailbox: Mailbox) -> None:
    operator, other = Operator(mailbox, 1), Operator(mailbox, 0)
    assert not operator.executor.should_interrupt()

    other.mail("continue", deferrable=True)

    assert operator.executor.should_interrupt()


# ----------------------------------------------------------------------------------------- submitted


def test_what_a_submitted_call_returns_is_its_futures_m23(mailbox: Mailbox) -> None:
    executor = MailboxExecutor(mailbox, 0)
    future = executor.submit(lambda: 7, "seven")
    assert not future.done()

    executor.yield_()

    assert future.result(timeout=0) == 7


def test_what_a_submitted_call_raises_fails_no_task_m23(mailbox: Mailbox) -> None:
    executor = MailboxExecutor(mailbox, 0)
    future: Future[float] = executor.submit(lambda: 1 / 0, "burst")

    executor.yield_()

    assert isinstance(future.exception(timeout=0), ZeroDivisionError)


def test_an_interrupt_in_a_submitted_call_is_the_futures_and_the_tasks_m23(mailbox: Mailbox) -> None:
    executor = MailboxExecutor(mailbox, 0)

    def interrupt() -> None:
        raise KeyboardInterrupt

    future = executor.submit(interrupt, "interrupt")

    with pytest.raises(KeyboardInterrupt):
        executor.yield_()
    assert isinstance(future.exception(timeout=0), KeyboardInterrupt)


def test_a_cancelled_call_does_not_run_m23(mailbox: Mailbox) -> None:
    executor = MailboxExecutor(mailbox, 0)
    ran: list[str] = []
    future = executor.submit(lambda: ran.append("ran"), "cancelled")

    assert future.cancel()
    executor.yield_()

    assert ran == []


def test_a_foreign_thread_gets_the_result_of_what_it_submits_m23(mailbox: Mailbox) -> None:
    executor = MailboxExecutor(mailbox, 0)
    results: list[int] = []
    thread = threading.Thread(
        target=lambda: results.append(executor.submit(threading.get_ident, "where").result(timeout=60))
    )
    mailbox._loop.call_soon(thread.start)

    executor.yield_()
    thread.join(timeout=60)

    assert results == [threading.get_ident()]


def test_a_submitted_call_ends_with_the_close_and_not_before_m37(mailbox: Mailbox) -> None:
    mailbox_processor = MailboxProcessor(mailbox)
    future = MailboxExecutor(mailbox, 0).submit(lambda: 7, "seven")

    mailbox_processor.prepare_close()
    assert not future.done()

    mailbox_processor.close()
    assert future.cancelled()


def test_a_call_submitted_from_afar_and_still_on_its_way_is_cancelled_m37(mailbox: Mailbox) -> None:
    executor = MailboxExecutor(mailbox, 0)
    futures: list[Future[int]] = []
    thread = threading.Thread(target=lambda: futures.append(executor.submit(lambda: 7, "seven")))
    thread.start()
    thread.join(timeout=60)

    MailboxProcessor(mailbox).close()

    assert futures[0].cancelled()


def test_only_a_future_can_be_cancelled_m21() -> None:
    ran: list[str] = []
    mail = Mail(lambda: ran.append("ran"), 0, "plain")

    mail.try_cancel()
    mail.action()

    assert ran == ["ran"]


class StubbornFuture(Future[None]):
    """Not to be cancelled in peace."""

    def __init__(self, name: str, tried: list[str]) -> None:
        super().__init__()
        self.name = name
        self.tried = tried

    def run(self) -> None:
        """The mail's action."""

    def cancel(self) -> bool:
        """Note it, and fail."""
        self.tried.append(self.name)
        raise ArithmeticError(self.name)


def test_all_dropped_mail_is_cancelled_and_the_first_error_counts_m37(mailbox: Mailbox) -> None:
    tried: list[str] = []
    executor = MailboxExecutor(mailbox, 0)
    for name in ("a", "b"):
        executor.execute(StubbornFuture(name, tried).run, name)
    future = executor.submit(lambda: 7, "seven")

    with pytest.raises(ArithmeticError, match="a") as raised:
        MailboxProcessor(mailbox).close()

    assert tried == ["a", "b"]
    assert future.cancelled()
    assert raised.value.__notes__ == ["suppressed, of 'b': ArithmeticError('b')"]


def test_nothing_can_be_submitted_to_a_closed_mailbox_m22(mailbox: Mailbox) -> None:
    mailbox.close()

    with pytest.raises(MailboxClosed):
        MailboxExecutor(mailbox, 0).submit(lambda: 7, "seven")


# ------------------------------------------------------------------------------------------ misuse


def test_a_take_that_nothing_can_end_is_an_error_and_no_wait_for_ever(mailbox: Mailbox) -> None:
    """Flink's waits until the thread is interrupted."""
    operator = Operator(mailbox, 1)
    operator.mail("continue", deferrable=True)
    mailbox.quiesce()

    with pytest.raises(MailboxClosed, match="will never get"):
        operator.executor.yield_()


def test_an_interrupted_take_gives_what_is_there_and_raises_where_it_would_wait_m9(mailbox: Mailbox) -> None:
    MailboxExecutor(mailbox, 0).execute(lambda: None, "last")

    mailbox.interrupt(TimeoutError())

    assert mailbox.take().what == "last"
    with pytest.raises(TimeoutError):
        mailbox.take()


@pytest.mark.parametrize("end", [Mailbox.close, Mailbox.quiesce])
def test_the_end_of_the_mailbox_wakes_a_waiting_take_m5(
    mailbox: Mailbox, end: Callable[[Mailbox], object]
) -> None:
    executor = MailboxExecutor(mailbox, 0)
    refused: list[str] = []

    def end_and_put() -> None:
        end(mailbox)
        try:
            executor.execute(lambda: None, "late")
        except MailboxClosed as error:
            refused.append(str(error))

    mailbox._loop.call_soon(end_and_put)

    with pytest.raises(MailboxClosed):
        mailbox.take()
    assert "'late'" in refused[0]  # while the take still waits
    with pytest.raises(MailboxClosed, match="'later'"):
        executor.execute(lambda: None, "later")


@pytest.mark.parametrize("call", ["yield_", "try_yield", "try_yield_ignoring_deferrable", "should_interrupt"])
def test_a_foreign_thread_is_refused_at_the_call_m24(mailbox: Mailbox, call: str) -> None:
    executor = MailboxExecutor(mailbox, 0)
    executor.execute(lambda: None, "mail")
    raised: list[WrongState] = []

    def misuse() -> None:
        try:
            getattr(executor, call)()
        except WrongState as error:
            raised.append(error)

    thread = threading.Thread(target=misuse)
    thread.start()
    thread.join(timeout=60)

    assert "thread" in str(raised[0])
    assert len(mailbox) == 1
