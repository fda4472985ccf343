"""Claims about the mailbox: M1-M16, M22, M24, M25, M38."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.errors import MailboxClosed, WrongState
from reference_impl.mailbox.mailbox import MAX_PRIORITY, Mail, Mailbox, MailboxExecutor, MailboxState
from reference_impl.tests.rig import quickly, watched_loop


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    with watched_loop() as loop:
        yield Mailbox(loop=loop)


def mail(what: str, priority: int = 0) -> Mail:
    return Mail(action=lambda: None, priority=priority, what=what)


def taken(box: Mailbox, priority: int = -1) -> list[str]:
    """All that takes of that priority get, without waiting."""
    names = []
    while (got := box.try_take(priority)) is not None:
        names.append(got.what)
    return names


def batch(box: Mailbox) -> list[str]:
    """All that the rest of the batch gives."""
    names = []
    while (got := box.try_take_from_batch()) is not None:
        names.append(got.what)
    return names


def in_thread(call: Callable[[], Any]) -> BaseException | None:
    """What `call` raises on a thread of its own."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - handed to the test
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(timeout=60)
    return raised[0] if raised else None


# ---------------------------------------------------------------------------------------- its states


def test_quiesce_never_reopens_a_closed_mailbox_m1(mailbox: Mailbox) -> None:
    mailbox.close()

    mailbox.quiesce()

    assert mailbox.state is MailboxState.CLOSED


@pytest.mark.parametrize("end", [Mailbox.quiesce, Mailbox.close])
@pytest.mark.parametrize("urgent", [True, False])
def test_a_mailbox_that_is_not_open_takes_nothing_in_m2(
    mailbox: Mailbox, end: Callable[[Mailbox], Any], *, urgent: bool
) -> None:
    end(mailbox)

    with pytest.raises(MailboxClosed, match="'late'"):
        mailbox.put(mail("late"), urgent=urgent)

    assert len(mailbox) == 0


def test_a_quiesced_mailbox_still_gives_out_its_mail_m3(mailbox: Mailbox) -> None:
    mailbox.put(mail("a"))
    mailbox.quiesce()

    assert taken(mailbox) == ["a"]


@pytest.mark.parametrize("take", [Mailbox.take, Mailbox.try_take, Mailbox.try_take_from_batch])
def test_a_closed_mailbox_gives_nothing_out_m3(mailbox: Mailbox, take: Callable[[Mailbox], Any]) -> None:
    mailbox.close()

    with pytest.raises(MailboxClosed):
        take(mailbox)


@pytest.mark.parametrize(
    "call",
    [
        Mailbox.take,
        Mailbox.try_take,
        Mailbox.try_take_from_batch,
        Mailbox.create_batch,
        Mailbox.quiesce,
        Mailbox.close,
        Mailbox.let_loop_turn,
    ],
)
def test_only_its_own_thread_takes_from_a_mailbox_m3_m4(
    mailbox: Mailbox, call: Callable[[Mailbox], Any]
) -> None:
    mailbox.close()  # the thread is checked before the state

    raised = in_thread(lambda: call(mailbox))

    assert isinstance(raised, WrongState)
    assert not isinstance(raised, MailboxClosed)


def test_close_returns_each_undelivered_mail_once_m5(mailbox: Mailbox) -> None:
    mailbox.put(mail("a"))
    mailbox.create_batch()
    mailbox.put(mail("b"))

    assert [m.what for m in mailbox.close()] == ["a", "b"]
    assert mailbox.close() == []


OPERATION = st.sampled_from(
    ["put", "urgent", "batch", "pop", "take", "take high", "drain", "quiesce", "close"]
)


@quickly
@given(st.lists(OPERATION, max_size=40))
def test_every_accepted_mail_leaves_exactly_once_m5(operations: list[str]) -> None:
    with watched_loop() as loop:
        box = Mailbox(loop=loop)
        accepted: list[str] = []
        left: list[str] = []

        for number, operation in enumerate(operations):
            got = apply(box, operation, mail(str(number), number % 3))
            accepted += [str(number)] if got is True else []
            left += got if isinstance(got, list) else []
        left += [m.what for m in box.close()]

    assert sorted(left) == sorted(accepted)


def apply(box: Mailbox, operation: str, letter: Mail) -> list[str] | bool:
    """True if `letter` was accepted, else the mails that left."""
    try:
        match operation:
            case "put" | "urgent":
                box.put(letter, urgent=operation == "urgent")
                return True
            case "batch":
                box.create_batch()
            case "quiesce":
                box.quiesce()
            case "drain" | "close":
                return [m.what for m in (box.drain() if operation == "drain" else box.close())]
            case "pop":
                got = box.try_take_from_batch()
                return [] if got is None else [got.what]
            case _:
                got = box.try_take(-1 if operation == "take" else 2)
                return [] if got is None else [got.what]
    except MailboxClosed:
        pass
    return []


# ------------------------------------------------------------------------------- priorities, batches


def test_priorities_filter_and_do_not_sort_m7(mailbox: Mailbox) -> None:
    for what, priority in (("low", 1), ("high", 5), ("middle", 3)):
        mailbox.put(mail(what, priority))

    assert taken(mailbox, 3) == ["high", "middle"]
    assert taken(mailbox) == ["low"]


def test_a_batch_is_popped_whatever_the_priority_m10(mailbox: Mailbox) -> None:
    mailbox.put(mail("low", -1))
    mailbox.create_batch()

    assert batch(mailbox) == ["low"]


def test_a_batch_gives_no_mail_that_came_after_it_m13(mailbox: Mailbox) -> None:
    mailbox.put(mail("a"))
    mailbox.create_batch()
    mailbox.put(mail("b"))

    assert batch(mailbox) == ["a"]


def test_a_leftover_batch_is_not_topped_up_m11(mailbox: Mailbox) -> None:
    for what in "ab":
        mailbox.put(mail(what))
    mailbox.create_batch()
    mailbox.try_take_from_batch()
    mailbox.put(mail("c"))

    mailbox.create_batch()

    assert batch(mailbox) == ["b"]


def test_an_urgent_mail_opens_a_leftover_batch_to_what_waits_m11(mailbox: Mailbox) -> None:
    mailbox.put(mail("a"))
    mailbox.create_batch()
    mailbox.put(mail("b"))
    mailbox.put(mail("u"), urgent=True)

    mailbox.create_batch()

    assert batch(mailbox) == ["u", "a", "b"]


def test_mail_put_behind_an_urgent_one_does_not_starve_m10(mailbox: Mailbox) -> None:
    """FLINK-39898."""
    mailbox.put(mail("u"), urgent=True)
    mailbox.put(mail("a"))

    assert batch(mailbox) == ["u", "a"]


@quickly
@given(st.lists(st.integers(0, 3), max_size=8), st.integers(-1, 3), st.integers(0, 8))
def test_batches_do_not_change_what_takes_see_m12(priorities: list[int], priority: int, cut: int) -> None:
    with watched_loop() as loop:
        plain, batched = Mailbox(loop=loop), Mailbox(loop=loop)
        for number, own in enumerate(priorities):
            if number == cut:
                batched.create_batch()
            plain.put(mail(str(number), own))
            batched.put(mail(str(number), own))

        assert taken(plain, priority) == taken(batched, priority)


# ------------------------------------------------------------------------------------------- urgency


@quickly
@given(
    puts=st.lists(st.tuples(st.booleans(), st.sampled_from(["none", "batch", "take"])), max_size=12),
    by_batch=st.booleans(),
)
def test_urgent_mail_is_first_and_in_order_whatever_the_mix_of_takes_m16(
    *, puts: list[tuple[bool, str]], by_batch: bool
) -> None:
    with watched_loop() as loop:
        box = Mailbox(loop=loop)
        for number, (urgent, between) in enumerate(puts):
            box.put(mail(f"{'u' if urgent else 'n'}{number:02}"), urgent=urgent)
            if between == "batch":
                box.create_batch()
            elif between == "take":
                box.try_take(7)  # sees nothing, and must disturb nothing
        box.create_batch()

        order = batch(box) if by_batch else taken(box)

    urgents = [what for what in order if what[0] == "u"]
    assert order[: len(urgents)] == urgents
    assert urgents == sorted(urgents)


def test_a_take_that_sees_nothing_does_not_reverse_urgent_mail_m17a(mailbox: Mailbox) -> None:
    mailbox.put(mail("x", 1), urgent=True)
    assert mailbox.try_take(2) is None
    for what in "ab":
        mailbox.put(mail(what, 2), urgent=True)

    assert taken(mailbox, 2) == ["a", "b"]


def test_urgent_mail_put_while_a_take_waits_keeps_its_order_m17b(mailbox: Mailbox) -> None:
    def put_two() -> None:
        for what in "ab":
            mailbox.put(mail(what), urgent=True)

    mailbox._loop.call_soon(put_two)

    assert [mailbox.take().what, mailbox.take().what] == ["a", "b"]


# ------------------------------------------------------------------------------------------- waiting


def test_a_take_runs_the_loop_until_a_callback_puts_mail_m9(mailbox: Mailbox) -> None:
    mailbox._loop.call_later(0.001, mailbox.put, mail("a"))

    assert mailbox.take().what == "a"
    assert not mailbox.parked


def test_mail_that_a_waiting_take_cannot_see_does_not_end_its_wait_m19(mailbox: Mailbox) -> None:
    mailbox._loop.call_soon(mailbox.put, mail("low", 0))
    mailbox._loop.call_later(0.001, mailbox.put, mail("high", 2))

    assert mailbox.take(1).what == "high"
    assert taken(mailbox) == ["low"]


def test_a_foreign_thread_wakes_a_waiting_take(mailbox: Mailbox) -> None:
    executor = MailboxExecutor(mailbox, 0)
    thread = threading.Thread(target=executor.execute, args=(lambda: None, "from afar"))
    mailbox._loop.call_soon(thread.start)

    assert mailbox.take().what == "from afar"
    thread.join(timeout=60)


def test_a_foreign_thread_is_refused_once_the_loop_is_gone() -> None:
    with watched_loop() as loop:
        box = Mailbox(loop=loop)

    raised = in_thread(lambda: box.put(mail("late")))

    assert isinstance(raised, MailboxClosed)


def test_foreign_mail_on_its_way_is_returned_by_the_close_and_arrives_no_more_m5(mailbox: Mailbox) -> None:
    assert in_thread(lambda: mailbox.put(mail("on its way"))) is None
    assert [m.what for m in mailbox.close()] == ["on its way"]

    mailbox.let_loop_turn()

    assert len(mailbox) == 0


# ------------------------------------------------------------------------------------------ executor


def test_an_executor_of_a_closed_mailbox_rejects_m22(mailbox: Mailbox) -> None:
    mailbox.close()

    with pytest.raises(MailboxClosed):
        MailboxExecutor(mailbox, 0).execute(lambda: None, "late")


def test_a_yield_runs_downstream_mail_and_never_upstream_mail_m25(mailbox: Mailbox) -> None:
    ran: list[str] = []
    upstream, own, downstream = (MailboxExecutor(mailbox, priority) for priority in (0, 1, 2))
    upstream.execute(lambda: ran.append("upstream"), "upstream")
    downstream.execute(lambda: ran.append("downstream"), "downstream")
    own.execute(lambda: ran.append("own"), "own")

    own.yield_()
    own.yield_()

    assert ran == ["downstream", "own"]
    assert not own.try_yield()


def test_a_yield_inside_a_mail_runs_other_mail_m24(mailbox: Mailbox) -> None:
    ran: list[str] = []
    executor = MailboxExecutor(mailbox, 0)

    def outer() -> None:
        executor.yield_()
        ran.append("outer")

    executor.execute(outer, "outer")
    mailbox._loop.call_later(0.001, executor.execute, lambda: ran.append("inner"), "inner")

    executor.yield_()

    assert ran == ["inner", "outer"]


def test_what_a_mail_raises_comes_out_of_the_yield_m24(mailbox: Mailbox) -> None:
    executor = MailboxExecutor(mailbox, MAX_PRIORITY)

    def burst() -> None:
        raise ArithmeticError

    executor.execute(burst, "burst")

    with pytest.raises(ArithmeticError):
        executor.yield_()


def test_a_drain_gives_batch_and_queue_in_order_m38(mailbox: Mailbox) -> None:
    mailbox.put(mail("a"))
    mailbox.create_batch()
    mailbox.put(mail("b"))

    assert [m.what for m in mailbox.drain()] == ["a", "b"]
    assert len(mailbox) == 0
