"""Claims about foreign threads that race with takes and with the close: M2, M5, M9, M18, M20."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import groupby

import pytest

from reference_impl.errors import MailboxClosed
from reference_impl.mailbox.mailbox import Mail, Mailbox, MailboxExecutor
from reference_impl.tests.rig import watched_loop

LIMIT_S = 60.0
"""For each wait: far above what it takes, and the test fails rather than hangs."""


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    with watched_loop() as loop:
        yield Mailbox(loop=loop)


def mail(what: str) -> Mail:
    return Mail(lambda: None, 0, what)


class Crew:
    """Threads that start as one; what they raise is kept, and fails the test when they are joined."""

    def __init__(self, *runs: Callable[[], None]) -> None:
        self._start = threading.Barrier(len(runs) + 1, timeout=LIMIT_S)
        self._errors: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, args=(run,)) for run in runs]
        for thread in self._threads:
            thread.start()

    def start(self) -> None:
        """From the test's own thread: all go now."""
        self._start.wait()

    def _run(self, run: Callable[[], None]) -> None:
        try:
            self._start.wait()
            run()
        except BaseException as error:  # noqa: BLE001 - handed to the test
            self._errors.append(error)

    def join(self) -> None:
        """They have ended, and none raised."""
        for thread in self._threads:
            thread.join(timeout=LIMIT_S)
            assert not thread.is_alive()
        assert self._errors == []


class Sender:
    """Puts until it is refused, and knows what was accepted."""

    def __init__(self, mailbox: Mailbox, name: str, *, group: int, groups_max: int) -> None:
        self.accepted: list[str] = []
        self._mailbox = mailbox
        self._name = name
        self._group = group
        self._groups_max = groups_max
        self._number = 0

    def __call__(self) -> None:
        try:
            for _ in range(self._groups_max):
                self._mailbox.run_exclusively(self._put_group)
                self._number += 1
        except MailboxClosed:
            return

    def _put_group(self) -> None:
        for place in range(self._group):
            what = f"{self._name}.{self._number}.{place}"
            self._mailbox.put(mail(what), urgent=self._number % 3 == 0)
            self.accepted.append(what)


def group_of(what: str) -> str:
    return what.rpartition(".")[0]


@pytest.mark.parametrize("closing", ["close", "quiesce", "drain"])
def test_no_accepted_mail_is_lost_whenever_the_mailbox_ends_m5_m20(mailbox: Mailbox, closing: str) -> None:
    senders = [Sender(mailbox, name, group=1, groups_max=5_000) for name in "abc"]
    crew = Crew(*senders)
    crew.start()

    taken = [mailbox.take().what for _ in range(200)]
    if closing == "quiesce":
        mailbox.quiesce()
        while (got := mailbox.try_take()) is not None:
            taken.append(got.what)
    elif closing == "drain":
        taken += [got.what for got in mailbox.drain()]
    taken += [got.what for got in mailbox.close()]
    crew.join()
    mailbox.let_loop_turn()

    assert len(mailbox) == 0
    assert sorted(taken) == sorted(what for sender in senders for what in sender.accepted)
    for sender in senders:  # and each sender's normal mail in the order in which it was put
        accepted = set(sender.accepted)
        own = [what for what in taken if what in accepted and int(what.split(".")[1]) % 3]
        assert own == [what for what in sender.accepted if int(what.split(".")[1]) % 3]


def test_what_is_put_exclusively_stays_together_and_comes_whole_m18(mailbox: Mailbox) -> None:
    senders = [Sender(mailbox, name, group=3, groups_max=400) for name in "ab"]
    own = Sender(mailbox, "own", group=3, groups_max=1)
    crew = Crew(*senders)
    crew.start()

    taken: list[str] = []
    for _ in range(300):
        own()
        taken.append(mailbox.take().what)
        mailbox.let_loop_turn()
    taken += [got.what for got in mailbox.close()]
    crew.join()

    for urgent in (True, False):  # urgent mail overtakes; among its like each group is unbroken
        kind = [what for what in taken if (int(what.split(".")[1]) % 3 == 0) == urgent]
        groups = [(group, len(list(whats))) for group, whats in groupby(kind, key=group_of)]
        assert {length for _, length in groups} <= {3}
        assert len({group for group, _ in groups}) == len(groups)


def test_a_close_waits_for_a_group_and_returns_it_whole_m18(mailbox: Mailbox) -> None:
    in_the_middle, closing = threading.Event(), threading.Event()

    def group() -> None:
        mailbox.put(mail("a"))
        in_the_middle.set()
        assert closing.wait(LIMIT_S)
        mailbox.put(mail("b"))

    crew = Crew(lambda: mailbox.run_exclusively(group))
    crew.start()
    assert in_the_middle.wait(LIMIT_S)
    closing.set()

    left = mailbox.close()
    crew.join()

    assert [got.what for got in left] == ["a", "b"]


def test_another_threads_put_does_not_come_between_a_group_m18(mailbox: Mailbox) -> None:
    in_the_middle, knocking = threading.Event(), threading.Event()

    def group() -> None:
        mailbox.put(mail("a"))
        in_the_middle.set()
        assert knocking.wait(LIMIT_S)
        mailbox.put(mail("b"))

    def other() -> None:
        assert in_the_middle.wait(LIMIT_S)
        knocking.set()
        mailbox.put(mail("other"))

    crew = Crew(lambda: mailbox.run_exclusively(group), other)
    crew.start()
    crew.join()

    assert [got.what for got in mailbox.drain()] == ["a", "b", "other"]


@pytest.mark.parametrize("foreign", [True, False])
def test_what_throws_while_it_is_exclusive_lets_others_in_again_m18(
    mailbox: Mailbox, *, foreign: bool
) -> None:
    def burst() -> None:
        mailbox.put(mail("a"))
        raise ArithmeticError

    def attempt() -> None:
        with pytest.raises(ArithmeticError):
            mailbox.run_exclusively(lambda: mailbox.run_exclusively(burst))  # it may be nested

    if foreign:
        crew = Crew(attempt)
        crew.start()
        crew.join()
    else:
        attempt()
    other = Crew(lambda: mailbox.put(mail("b")))
    other.start()
    other.join()

    assert [got.what for got in mailbox.close()] == ["a", "b"]


def test_mail_accepted_before_the_quiesce_is_given_out_after_it_m5(mailbox: Mailbox) -> None:
    crew = Crew(lambda: mailbox.put(mail("on its way")))
    crew.start()
    crew.join()

    mailbox.quiesce()

    assert mailbox.take().what == "on its way"


def test_a_foreign_put_is_refused_at_the_call_m2(mailbox: Mailbox) -> None:
    mailbox.quiesce()
    refused: list[MailboxClosed] = []

    def put() -> None:
        try:
            mailbox.put(mail("late"))
        except MailboxClosed as error:
            refused.append(error)

    crew = Crew(put)
    crew.start()
    crew.join()

    assert "'late'" in str(refused[0])
    assert len(mailbox) == 0


def test_every_foreign_put_wakes_a_take_that_waits_for_it_m9_m19(mailbox: Mailbox) -> None:
    """One mail at a time, each answered before the next is put: a lost wake-up would hang here."""
    answered = threading.Semaphore(0)

    def ask() -> None:
        for number in range(200):
            mailbox.put(mail(str(number)), urgent=number % 2 == 0)
            assert answered.acquire(timeout=LIMIT_S)

    crew = Crew(ask)
    crew.start()

    for number in range(200):
        assert mailbox.take().what == str(number)
        answered.release()
    crew.join()


def test_a_foreign_threads_mail_counts_at_once_and_comes_when_the_loop_turns_m2(mailbox: Mailbox) -> None:
    executor = MailboxExecutor(mailbox, 0)
    crew = Crew(lambda: executor.execute(lambda: None, "from afar"))
    crew.start()
    crew.join()
    assert (len(mailbox), mailbox.has_mail()) == (1, False)

    mailbox.let_loop_turn()

    assert (len(mailbox), mailbox.has_mail()) == (1, True)


def test_what_a_gone_loop_cannot_bring_in_is_in_no_structure_m2() -> None:
    with watched_loop() as loop:
        mailbox = Mailbox(loop=loop)

    def put() -> None:
        with pytest.raises(MailboxClosed, match="'late'"):
            mailbox.put(mail("late"))

    crew = Crew(put)
    crew.start()
    crew.join()

    assert len(mailbox) == 0
    assert mailbox.close() == []
