"""The mailbox: actions for the task's thread, and the one place where that thread waits.

Answers to Flink's `TaskMailboxImpl`, `Mail` and `MailboxExecutorImpl`. The mailbox is outside, the event
loop inside: mail never runs within a callback of the loop; the loop runs only while a `take` finds
nothing (`Mailbox.parked`), and the callback that puts mail stops it. So a yield may be nested in a mail,
and locks, signals and Flink's `hasNewMail` have no counterpart here.

Invariant: conservation (M5): each mail that `put` accepted is taken once, or drained, or returned by `close`.

Deviation: urgent mail has a deque of its own, where Flink keeps it reversed at the head of the queue; so it
is first and in order of arrival whatever the mix of takes (M16), without the holes of M17.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from threading import get_ident

from reference_impl.errors import MailboxClosed, WrongState

__all__ = ["MAX_PRIORITY", "MIN_PRIORITY", "Mail", "Mailbox", "MailboxExecutor", "MailboxState"]

MIN_PRIORITY = -1
"""A take with it sees every mail (M7)."""
MAX_PRIORITY = 2**31 - 1
"""Mail with it is seen by every take: control mail (M34)."""


class Mail:
    """An action for the task's thread. A plain class: every completion makes one, so it has to be cheap.

    `priority` is the place of its operator in the chain: an upstream operator's mail has the smaller number
    (M7). `what` is for people.
    """

    __slots__ = ("action", "priority", "what")

    def __init__(self, action: Callable[[], None], priority: int, what: str) -> None:
        self.action = action
        self.priority = priority
        self.what = what


class MailboxState(Enum):
    """OPEN → QUIESCED → CLOSED, or OPEN → CLOSED; nothing leads back (M1)."""

    OPEN = "open"
    QUIESCED = "quiesced"
    CLOSED = "closed"


_OPEN, _CLOSED = MailboxState.OPEN, MailboxState.CLOSED  # what is asked for each mail is asked briefly


class Mailbox:
    """Mail for the thread that built it. Mutable; a foreign thread may only put."""

    def __init__(self, *, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread = get_ident()
        self._state = _OPEN
        self._urgent: deque[Mail] = deque()
        self._batch: deque[Mail] = deque()
        self._queue: deque[Mail] = deque()
        self._parked = False

    def __len__(self) -> int:
        """The mails not yet taken."""
        return len(self._urgent) + len(self._batch) + len(self._queue)

    @property
    def state(self) -> MailboxState:
        """Where the mailbox is in its life."""
        return self._state

    @property
    def parked(self) -> bool:
        """Whether a take waits for mail, so that only callbacks of the loop run at present."""
        return self._parked

    def on_task_thread(self) -> bool:
        """Whether the caller is on the mailbox's thread."""
        return get_ident() == self._thread

    def put(self, mail: Mail, *, urgent: bool = False) -> None:
        """Add `mail` behind all others, or, if urgent, behind the other urgent ones; from any thread (M2)."""
        if self._state is not _OPEN:
            raise self._closed(f"cannot take in {mail.what!r}")
        if get_ident() != self._thread:
            self._put_from_thread(mail, urgent)
            return
        (self._urgent if urgent else self._queue).append(mail)
        if self._parked:
            self._loop.stop()

    def _put_from_thread(self, mail: Mail, urgent: bool) -> None:  # noqa: FBT001 - as its caller has it
        """By way of the loop: the mail arrives when that turns, unless the mailbox closes first."""
        try:
            self._loop.call_soon_threadsafe(self._arrive, mail, urgent)
        except RuntimeError as loop_closed:
            raise MailboxClosed(f"the loop is closed and cannot bring in {mail.what!r}") from loop_closed

    def _arrive(self, mail: Mail, urgent: bool) -> None:  # noqa: FBT001 - call_soon passes no keywords
        with suppress(MailboxClosed):  # its sender has long gone on
            self.put(mail, urgent=urgent)

    def take(self, priority: int = MIN_PRIORITY) -> Mail:
        """The first mail of at least `priority`; without any, runs the loop until one is put (M9)."""
        while (mail := self.try_take(priority)) is None:
            self._park()
        return mail

    def try_take(self, priority: int = MIN_PRIORITY) -> Mail | None:
        """The first mail of at least `priority`: priorities filter, they do not sort (M7)."""
        self._require_may_take()
        for mails in (self._urgent, self._batch, self._queue):
            mail = _take_visible(mails, priority)
            if mail is not None:
                return mail
        return None

    def create_batch(self) -> bool:
        """Fix what one turn of the mailbox loop will run; whether that is anything (M11, M13).

        A batch left over from an interrupted turn is not topped up, unless urgent mail waits.
        """
        self._require_task_thread("create a batch")
        if not self._batch or self._urgent:
            self._top_up()
        return bool(self._urgent or self._batch)

    def try_take_from_batch(self) -> Mail | None:
        """The next urgent mail, else the next of the batch, whatever its priority (M10)."""
        self._require_may_take()
        if not self._urgent:
            return self._batch.popleft() if self._batch else None
        if not self._batch:
            self._top_up()  # FLINK-39898: else what was put behind the urgent mail starves
        return self._urgent.popleft()

    def let_loop_turn(self) -> None:
        """One turn of the loop without waiting: what is ready there may put its mail."""
        self._require_task_thread("turn the loop")
        self._loop.stop()  # asyncio's idiom: a loop that is stopped before it runs, runs exactly one turn
        self._loop.run_forever()

    def quiesce(self) -> None:
        """Take in nothing more, still give out what is there (M1)."""
        self._require_task_thread("quiesce")
        if self._state is _OPEN:
            self._state = MailboxState.QUIESCED

    def drain(self) -> list[Mail]:
        """All mail, in the order in which it would have been taken (M38)."""
        mails = [*self._urgent, *self._batch, *self._queue]
        for box in (self._urgent, self._batch, self._queue):
            box.clear()
        return mails

    def close(self) -> list[Mail]:
        """End it; the undelivered mails, once (M5)."""
        self._require_task_thread("close")
        self._state = _CLOSED
        return self.drain()

    def _park(self) -> None:
        self._parked = True
        try:
            self._loop.run_forever()
        finally:
            self._parked = False

    def _top_up(self) -> None:
        self._batch.extend(self._queue)
        self._queue.clear()

    def _require_task_thread(self, what: str) -> None:
        if get_ident() != self._thread:
            raise WrongState(f"{what}: only the mailbox's own thread may do that")

    def _require_may_take(self) -> None:
        self._require_task_thread("take")
        if self._state is _CLOSED:
            raise self._closed("has no mail to give")

    def _closed(self, consequence: str) -> MailboxClosed:
        return MailboxClosed(f"the mailbox is {self._state.value} and {consequence}")


def _take_visible(mails: deque[Mail], priority: int) -> Mail | None:
    for index, mail in enumerate(mails):
        if mail.priority >= priority:
            del mails[index]
            return mail
    return None


class MailboxExecutor:
    """A mailbox as seen by one operator: its mail gets, and its yields ask for, the operator's priority."""

    def __init__(self, mailbox: Mailbox, priority: int, *, urgent: bool = False) -> None:
        self._mailbox = mailbox
        self._priority = priority
        self._urgent = urgent
        self.on_task_thread = mailbox.on_task_thread

    def execute(self, action: Callable[[], None], what: str) -> None:
        """Run `action` as mail; what it raises fails the task. From any thread (M22)."""
        self._mailbox.put(Mail(action, self._priority, what), urgent=self._urgent)

    def yield_(self) -> None:
        """Run one mail of this operator or of one further down, waiting for it if need be (M24, M25)."""
        self._mailbox.take(self._priority).action()

    def try_yield(self) -> bool:
        """As `yield_`, but without waiting; whether there was one."""
        mail = self._mailbox.try_take(self._priority)
        if mail is None:
            return False
        mail.action()
        return True
