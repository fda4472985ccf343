"""The mailbox: actions for the task's thread, the one place where that thread waits, and each operator's door to it.

Answers to Flink's `TaskMailboxImpl`, `Mail` and `MailboxExecutorImpl`. The mailbox is outside, the event loop inside:
mail never runs within a callback of the loop; the loop runs only while a `take` finds nothing (`Mailbox.parked`), and
the callback that puts mail stops it. So a yield may be nested in a mail, and conditions, signals and Flink's
`hasNewMail` have no counterpart here.

Invariant: conservation (M5): each mail that `put` accepted is taken once, or drained, or returned by `close`.

Deviations. Urgent mail has a deque of its own, where Flink keeps it reversed at the head of the queue; so it is first
and in order of arrival whatever the mix of takes (M16), without the holes of M17. The batch is a number, of mails at
the head of the queue, where Flink moves them to a second deque (M6, M11). A foreign thread's mail is on its way until
the loop turns; only for that there is a lock, so what M20 says of deques read without it is void. `drain` is for the
task's thread. A `take` that nothing can ever end is an error.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from enum import Enum
from threading import RLock, get_ident
from typing import Protocol, TypeVar

import msgspec

from reference_impl.errors import MailboxClosed, WrongState

__all__ = [
    "MAX_PRIORITY",
    "MIN_PRIORITY",
    "Deliverable",
    "Mail",
    "MailRunner",
    "Mailbox",
    "MailboxExecutor",
    "MailboxState",
]

MIN_PRIORITY = -1
"""A take with it sees every mail (M7)."""
MAX_PRIORITY = 2**31 - 1
"""Mail with it is seen by every take: control mail (M34)."""


class Deliverable(Protocol):
    """What a mailbox holds: `Mail`, or something that is its own mail (`reference_impl.operator.result.Settlement`)."""

    @property
    def action(self) -> Callable[[], None]:
        """What is to be done on the task's thread."""

    @property
    def priority(self) -> int:
        """The place of its operator in the chain: an upstream operator's mail has the smaller number (M7)."""

    @property
    def what(self) -> str:
        """For people."""

    @property
    def deferrable(self) -> bool:
        """Only for takes that see everything, and for nobody's yield (M8)."""

    def try_cancel(self) -> None:
        """The mail was dropped: tell whoever waits for it (M21)."""


class Mail(msgspec.Struct, eq=False):
    """An action for the task's thread. A struct: every completion makes one, so it has to be cheap."""

    action: Callable[[], None]
    priority: int
    what: str
    deferrable: bool = False

    def try_cancel(self) -> None:
        """Cancel the future whose method the action is; of no effect on any other action (M21)."""
        future = getattr(self.action, "__self__", None)
        if isinstance(future, Future):
            future.cancel()


class MailboxState(Enum):
    """OPEN → QUIESCED → CLOSED, or OPEN → CLOSED; nothing leads back (M1)."""

    OPEN = "open"
    QUIESCED = "quiesced"
    CLOSED = "closed"


_OPEN, _CLOSED = MailboxState.OPEN, MailboxState.CLOSED  # what is asked for each mail is asked briefly


class MailRunner(Protocol):
    """For whom a batch runs: the mailbox loop."""

    suspended: bool
    """It leaves: no further mail (M31)."""
    mails_run: int
    """Counted before each mail (M40)."""


class Mailbox:
    """Mail for the thread that built it. Mutable; a foreign thread may only put, and run exclusively."""

    def __init__(self, *, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread = get_ident()
        self._state = _OPEN
        self._urgent: deque[Deliverable] = deque()
        self._queue: deque[Deliverable] = deque()
        self._batch = 0
        """So many mails at the head of the queue are the batch."""
        self._parked = False
        self._plain = True
        """Open, and no take to be woken: all that a put from the task's thread has to do is append."""
        self._lock = RLock()
        self._on_the_way: deque[tuple[Deliverable, bool]] = deque()
        """From foreign threads, with whether it is urgent; under the lock."""
        self._interruption: Exception | None = None

    def __len__(self) -> int:
        """The mails not yet taken."""
        return len(self._urgent) + len(self._queue) + len(self._on_the_way)

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

    def has_mail(self) -> bool:
        """Whether a take that sees everything would find something (M6)."""
        self._require_task_thread("ask for mail")
        return bool(self._urgent or self._queue)

    def put(self, mail: Deliverable, *, urgent: bool = False) -> None:
        """Add `mail` behind all others, or, if urgent, behind the other urgent ones; from any thread (M2)."""
        if self._plain and not urgent and get_ident() == self._thread:
            self._queue.append(mail)  # the fast path
        elif get_ident() == self._thread:
            self._require_open(mail)
            self._add(mail, urgent=urgent, foreign=False)
            self._wake()
        else:
            self._send(mail, urgent=urgent)

    def run_exclusively(self, run: Callable[[], None]) -> None:
        """Run it here and now, and let nothing come between the mails that it puts; from any thread (M18)."""
        with self._lock:
            run()

    def _add(self, mail: Deliverable, *, urgent: bool, foreign: bool) -> None:
        """Where the mail belongs; `foreign` makes no difference here, but did in Flink (M14)."""
        del foreign
        (self._urgent if urgent else self._queue).append(mail)

    def _wake(self) -> None:
        """A waiting take looks again; once is enough until it waits again."""
        if self._parked:
            self._loop.stop()
            self._plain = self._state is _OPEN

    def _send(self, mail: Deliverable, *, urgent: bool) -> None:
        """By way of the loop: the mail arrives when that turns, or when the mailbox ends."""
        with self._lock:
            self._require_open(mail)
            self._on_the_way.append((mail, urgent))
            try:
                self._loop.call_soon_threadsafe(self._arrive)
            except RuntimeError as loop_closed:
                self._on_the_way.pop()
                raise MailboxClosed(f"the loop is closed and cannot bring in {mail.what!r}") from loop_closed

    def _arrive(self) -> None:
        self._collect()
        self._wake()

    def _collect(self) -> None:
        with self._lock:  # what another thread puts exclusively is awaited, and comes whole
            while self._on_the_way:
                mail, urgent = self._on_the_way.popleft()
                self._add(mail, urgent=urgent, foreign=True)

    def take(self, priority: int = MIN_PRIORITY) -> Deliverable:
        """The first mail of at least `priority`; without any, runs the loop until one is put (M9)."""
        while (mail := self.try_take(priority)) is None:
            self._wait()
        return mail

    def try_take(self, priority: int = MIN_PRIORITY) -> Deliverable | None:
        """The first mail of at least `priority`: priorities filter, they do not sort (M7).

        From any other priority than `MIN_PRIORITY` deferrable mail is hidden (M8).
        """
        if get_ident() != self._thread or self._state is _CLOSED:
            self._refuse_take()
        if not self._urgent:  # the fast path: nothing is there, or the first mail is the one
            if not self._queue:
                return None
            mail = self._queue[0]
            if mail.priority >= priority and not mail.deferrable:
                if self._batch:
                    self._batch -= 1
                return self._queue.popleft()
        return self._search(priority, deferrable_too=priority == MIN_PRIORITY)

    def try_take_ignoring_deferrable(self, priority: int) -> Deliverable | None:
        """As `try_take`, but deferrable mail is mail like any other (M8, FLINK-39481)."""
        if get_ident() != self._thread or self._state is _CLOSED:
            self._refuse_take()
        return self._search(priority, deferrable_too=True)

    def _search(self, priority: int, *, deferrable_too: bool) -> Deliverable | None:
        for mails in (self._urgent, self._queue):
            for index, mail in enumerate(mails):
                if mail.priority >= priority and (deferrable_too or not mail.deferrable):
                    del mails[index]
                    if mails is self._queue and index < self._batch:
                        self._batch -= 1
                    return mail
        return None

    def create_batch(self) -> bool:
        """Fix what one turn of the mailbox loop will run; whether that is anything (M11, M13).

        A batch left over from an interrupted turn is not topped up, unless urgent mail waits.
        """
        self._require_task_thread("create a batch")
        if self._urgent or not self._batch:
            self._batch = len(self._queue)
        return bool(self._urgent or self._batch)

    def try_take_from_batch(self) -> Deliverable | None:
        """The next urgent mail, else the next of the batch, whatever its priority (M10)."""
        if get_ident() != self._thread or self._state is _CLOSED:
            self._refuse_take()
        if self._urgent:
            if not self._batch:
                # FLINK-39898: else what was put behind the urgent mail starves.
                self._batch = len(self._queue)
            return self._urgent.popleft()
        if self._batch:
            self._batch -= 1
            return self._queue.popleft()
        return None

    def run_batch(self, runner: MailRunner) -> None:
        """Create a batch and run it, urgent mail between, until it is empty or its runner suspended (M30, M31).

        `create_batch` and `try_take_from_batch` in one, for the mailbox loop's turns: once a record.
        """
        queue, urgent = self._queue, self._urgent
        if urgent or not self._batch:
            self._batch = len(queue)
        while not runner.suspended:
            if self._state is _CLOSED:
                self._refuse_take()
            if urgent:
                mail = urgent.popleft()
            elif self._batch:
                self._batch -= 1
                mail = queue.popleft()
            else:
                return
            runner.mails_run += 1
            mail.action()

    def let_loop_turn(self) -> None:
        """One turn of the loop without waiting: what is ready there may put its mail."""
        self._require_task_thread("turn the loop")
        self._loop.stop()  # asyncio's idiom: a loop that is stopped before it runs, runs exactly one turn
        self._loop.run_forever()

    def quiesce(self) -> None:
        """Take in nothing more, still give out what is there (M1)."""
        self._require_task_thread("quiesce")
        self._collect_and_end(MailboxState.QUIESCED)

    def drain(self) -> list[Deliverable]:
        """All mail, in the order in which it would have been taken (M38)."""
        self._require_task_thread("drain")
        self._collect()
        mails = [*self._urgent, *self._queue]
        self._urgent.clear()
        self._queue.clear()
        self._batch = 0
        return mails

    def close(self) -> list[Deliverable]:
        """End it; the undelivered mails, once (M5). A waiting take raises."""
        self._require_task_thread("close")
        self._collect_and_end(_CLOSED)
        return self.drain()

    def _collect_and_end(self, state: MailboxState) -> None:
        """What was accepted up to now counts as put; from now on nothing is."""
        with self._lock:
            self._collect()
            if self._state is _OPEN or state is _CLOSED:
                self._state = state
        self._plain = self._state is _OPEN
        self._wake()

    def interrupt(self, error: Exception) -> None:
        """Raise `error` where a take would wait, from now on; one that does looks again with the next mail (M9, M49).

        From any thread. Answers to the interrupt of the task's thread, which ends a yield that nothing else would end.
        """
        self._interruption = error

    def _wait(self) -> None:
        """Run the loop until somebody stops it."""
        if self._state is not _OPEN:
            raise self._closed("will never get the mail that a take waits for")
        if self._interruption is not None:
            raise self._interruption
        self._parked, self._plain = True, False
        try:
            self._loop.run_forever()
        finally:
            self._parked, self._plain = False, self._state is _OPEN

    def _require_task_thread(self, what: str) -> None:
        if get_ident() != self._thread:
            raise WrongState(f"{what}: only the mailbox's own thread may do that")

    def _require_open(self, mail: Deliverable) -> None:
        if self._state is not _OPEN:
            raise self._closed(f"cannot take in {mail.what!r}")

    def _refuse_take(self) -> None:
        self._require_task_thread("take")
        raise self._closed("has no mail to give")

    def _closed(self, consequence: str) -> MailboxClosed:
        return MailboxClosed(f"the mailbox is {self._state.value} and {consequence}")


T = TypeVar("T")


class MailboxExecutor:
    """A mailbox as one operator sees it: through its own priority.

    A mailbox as seen by one operator: its mail gets, and its yields ask for, the operator's priority.

    Answers to Flink's `MailboxExecutorImpl`. Invariant: a yield runs mail of this operator or of one further down the
    chain, never of one before it (M25), and nothing that may wait (M8).
    """

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
