"""A mailbox as one operator sees it: through its own priority.

Answers to Flink's `MailboxExecutorImpl`. Invariant: a yield runs mail of this operator or of one further down the
chain, never of one before it (M25), and nothing that may wait (M8).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import get_ident
from typing import TypeVar

from reference_impl.mailbox import Deliverable, Mail, Mailbox

__all__ = ["MailboxExecutor"]

T = TypeVar("T")


class MailboxExecutor:
    """A mailbox as seen by one operator: its mail gets, and its yields ask for, the operator's priority."""

    __slots__ = ("_deferrable", "_mailbox", "_priority", "_queue", "_thread", "_urgent", "on_task_thread")

    def __init__(
        self, mailbox: Mailbox, priority: int, *, urgent: bool = False, deferrable: bool = False
    ) -> None:
        self._mailbox = mailbox
        self._queue = mailbox._queue  # noqa: SLF001 - for the fast path, as are the other two looks inside
        self._thread = mailbox._thread  # noqa: SLF001
        self._priority = priority
        self._urgent = urgent
        self._deferrable = deferrable
        self.on_task_thread = mailbox.on_task_thread

    def execute(self, action: Callable[[], None], what: str) -> None:
        """Run `action` as mail; what it raises fails the task. From any thread (M22)."""
        # The fast path is that of `Mailbox.put` without a call, once a record.
        if self._mailbox._plain and not self._urgent and get_ident() == self._thread:  # noqa: SLF001
            self._queue.append(Mail(action, self._priority, what, self._deferrable))
        else:
            mail = Mail(action, self._priority, what, self._deferrable)
            self._mailbox.put(mail, urgent=self._urgent)

    @property
    def priority(self) -> int:
        """Of its mail."""
        return self._priority

    def deferring(self) -> MailboxExecutor:
        """The same, for mail that nobody's yield runs (M8): the rest of a long piece of work."""
        return MailboxExecutor(self._mailbox, self._priority, deferrable=True)

    def put(self, mail: Deliverable) -> None:
        """As `execute`, with mail that its sender has made: a record's settlement is its own mail."""
        if self._mailbox._plain and not self._urgent and get_ident() == self._thread:  # noqa: SLF001
            self._queue.append(mail)
        else:
            self._mailbox.put(mail, urgent=self._urgent)

    def submit(self, call: Callable[[], T], what: str) -> Future[T]:
        """Run `call` as mail; what it returns or raises is the future's, and fails no task (M23).

        The future is cancelled if the mailbox closes first (M37).
        """
        future = _Submitted(call)
        self.execute(future.run, what)
        return future

    def yield_(self) -> None:
        """Run one mail of this operator or of one further down, waiting for it if need be (M24, M25)."""
        self._mailbox.take(self._priority).action()

    def try_yield(self) -> bool:
        """As `yield_`, but without waiting; whether there was one."""
        return _run(self._mailbox.try_take(self._priority))

    def try_yield_ignoring_deferrable(self) -> bool:
        """As `try_yield`, and deferrable mail too: for an operator that finishes (M24, FLINK-39481)."""
        return _run(self._mailbox.try_take_ignoring_deferrable(self._priority))

    def should_interrupt(self) -> bool:
        """Whether a long piece of work should make room for mail, of whatever kind (M26)."""
        return self._mailbox.has_mail()


def _run(mail: Deliverable | None) -> bool:
    if mail is None:
        return False
    mail.action()
    return True


class _Submitted(Future[T]):
    """A future whose `run` is the action of a mail; it raises nothing."""

    def __init__(self, call: Callable[[], T]) -> None:
        super().__init__()
        self._call = call

    def run(self) -> None:
        if not self.set_running_or_notify_cancel():
            return  # its owner has cancelled it
        try:
            result = self._call()
        except BaseException as error:
            self.set_exception(error)
            if not isinstance(error, Exception):
                raise  # an interrupt is the process's, too
        else:
            self.set_result(result)
