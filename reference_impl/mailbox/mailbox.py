"""The mailbox: a queue of actions for the task's thread, and the executor through which each operator uses it.

Answers to Flink's `TaskMailboxImpl`, `Mail` and `MailboxExecutorImpl`. The event loop runs inside the mailbox: a
`take` that finds no mail runs the loop until a callback puts one. Callbacks of the loop only put mail and never run
it. Yields can therefore be nested inside mail, and Flink's lock conditions and `hasNewMail` have no counterpart here.

Invariant: each mail that `put` accepted is taken once, drained, or returned by `close` (M5).

Differences from Flink:
- Urgent mail has a deque of its own; Flink keeps it reversed at the head of the queue. Urgent mail always comes first,
  in order of arrival (M16); the exceptions of M17 do not occur.
- The batch is a count of mails at the head of the queue; Flink moves them to a second deque (M6, M11).
- Mail from another thread arrives when the loop turns. Only those mails need a lock, so M20 does not apply.
- `drain` may be called on the task's thread only.
- A `take` that can never end raises an error.
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

MIN_PRIORITY = -1
"""The lowest priority: a take with it accepts every mail (M7)."""
MAX_PRIORITY = 2**31 - 1
"""The highest priority, that of control mail: every take accepts it (M34)."""


class Deliverable(Protocol):
    """What a mailbox holds: a `Mail`, or an object that is its own mail, such as `operator.result.Settlement`."""

    @property
    def action(self) -> Callable[[], None]:
        """The action to run on the task's thread."""

    @property
    def priority(self) -> int:
        """Position of its operator in the chain: operators upstream have smaller numbers (M7)."""

    @property
    def what(self) -> str:
        """A description, for messages."""

    @property
    def deferrable(self) -> bool:
        """Whether yields skip this mail; only takes with `MIN_PRIORITY` accept it (M8)."""

    def try_cancel(self) -> None:
        """Called when the mailbox drops this mail: cancel the future that waits for it, if there is one (M21)."""


class Mail(msgspec.Struct, eq=False):
    """An action for the task's thread. A struct, since one is made for each completion."""

    action: Callable[[], None]
    priority: int
    what: str
    deferrable: bool = False

    def try_cancel(self) -> None:
        """Cancel the future whose method is the action; without effect on other actions (M21)."""
        future = getattr(self.action, "__self__", None)
        if isinstance(future, Future):
            future.cancel()


class MailboxState(Enum):
    """OPEN → QUIESCED → CLOSED, or OPEN → CLOSED; there is no way back (M1)."""

    OPEN = "open"
    QUIESCED = "quiesced"
    CLOSED = "closed"


_OPEN, _CLOSED = (
    MailboxState.OPEN,
    MailboxState.CLOSED,
)  # local names: `put` and `take` read them for each mail


class MailRunner(Protocol):
    """What `Mailbox.run_batch` needs of the loop that runs the batch."""

    suspended: bool
    """Whether to stop before the next mail (M31)."""
    mails_run: int
    """Incremented before each mail (M40)."""


class Mailbox:
    """Mail for the thread that built it. Mutable.

    Other threads may only call `put`, `run_exclusively` and `interrupt`.
    """

    def __init__(self, *, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread = get_ident()
        self._state = _OPEN
        self._urgent: deque[Deliverable] = deque()
        self._queue: deque[Deliverable] = deque()
        self._batch = 0
        """This many mails at the head of `_queue` form the batch."""
        self._parked = False
        self._plain = True
        """Open, and no take is parked: then a put from the task's thread only needs to append."""
        self._lock = RLock()
        self._on_the_way: deque[tuple[Deliverable, bool]] = deque()
        """Mails from other threads, each with whether it is urgent; guarded by the lock."""
        self._interruption: Exception | None = None

    def __len__(self) -> int:
        """The mails that have not been taken."""
        return len(self._urgent) + len(self._queue) + len(self._on_the_way)

    @property
    def state(self) -> MailboxState:
        return self._state

    @property
    def parked(self) -> bool:
        """Whether a take is running the event loop until mail arrives."""
        return self._parked

    def on_task_thread(self) -> bool:
        return get_ident() == self._thread

    def has_mail(self) -> bool:
        """Whether a take with `MIN_PRIORITY` would find mail (M6)."""
        self._require_task_thread("ask for mail")
        return bool(self._urgent or self._queue)

    def put(self, mail: Deliverable, *, urgent: bool = False) -> None:
        """Append `mail`, or if urgent, append it to the urgent mail, which is taken first (M2).

        Any thread may call it.
        """
        if get_ident() != self._thread:
            self._send(mail, urgent=urgent)
        elif self._plain and not urgent:
            self._queue.append(mail)  # fast path
        else:
            if self._state is not _OPEN:
                self._require_open(mail)
            self._add(mail, urgent=urgent, foreign=False)
            if self._parked:
                self._wake()

    def run_exclusively(self, run: Callable[[], None]) -> None:
        """Call `run`; mails that it puts are not interleaved with mails of other threads (M18).

        Any thread may call it.
        """
        with self._lock:
            run()

    def _add(self, mail: Deliverable, *, urgent: bool, foreign: bool) -> None:
        """Append to the right deque. `foreign`, which rule M14 of Flink needs, has no effect here."""
        del foreign
        (self._urgent if urgent else self._queue).append(mail)

    def _wake(self) -> None:
        """Stop the event loop if a take is parked, so that the take looks for mail again."""
        if self._parked:
            self._loop.stop()
            self._plain = self._state is _OPEN

    def _send(self, mail: Deliverable, *, urgent: bool) -> None:
        """Enqueue mail from another thread; it arrives when the loop turns, or when the mailbox ends."""
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
        with self._lock:  # waits for a thread in `run_exclusively`, so that all its mails arrive together
            while self._on_the_way:
                mail, urgent = self._on_the_way.popleft()
                self._add(mail, urgent=urgent, foreign=True)

    def take(self, priority: int = MIN_PRIORITY) -> Deliverable:
        """The first mail of at least `priority`; if there is none, run the event loop until one arrives (M9)."""
        while (mail := self.try_take(priority)) is None:
            self._wait()
        return mail

    def try_take(self, priority: int = MIN_PRIORITY) -> Deliverable | None:
        """The first mail of at least `priority`, or None. Priorities filter the mail, they do not order it (M7).

        Deferrable mail is skipped unless `priority` is `MIN_PRIORITY` (M8).
        """
        if get_ident() != self._thread or self._state is _CLOSED:
            self._refuse_take()
        if not self._urgent:  # fast path: no mail, or the first one qualifies
            if not self._queue:
                return None
            mail = self._queue[0]
            if mail.priority >= priority and not mail.deferrable:
                if self._batch:
                    self._batch -= 1
                return self._queue.popleft()
        return self._search(priority, deferrable_too=priority == MIN_PRIORITY)

    def try_take_ignoring_deferrable(self, priority: int) -> Deliverable | None:
        """As `try_take`, without skipping deferrable mail (M8, FLINK-39481)."""
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
        """Fix which mails one turn of the mailbox loop runs; return whether there are any (M11, M13).

        The rest of an interrupted batch is not extended, unless urgent mail is waiting.
        """
        self._require_task_thread("create a batch")
        if self._urgent or not self._batch:
            self._batch = len(self._queue)
        return bool(self._urgent or self._batch)

    def try_take_from_batch(self) -> Deliverable | None:
        """The next urgent mail, else the next mail of the batch, whatever its priority (M10)."""
        if get_ident() != self._thread or self._state is _CLOSED:
            self._refuse_take()
        if self._urgent:
            if not self._batch:
                # FLINK-39898: else mail behind the urgent mail is never taken while more urgent mail keeps
                # arriving.
                self._batch = len(self._queue)
            return self._urgent.popleft()
        if self._batch:
            self._batch -= 1
            return self._queue.popleft()
        return None

    def run_batch(self, runner: MailRunner) -> None:
        """Create a batch and run it, urgent mail first, until it is empty or `runner.suspended` is set (M30, M31).

        Combines `create_batch` and `try_take_from_batch`, since the mailbox loop does this for each record.
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
        """Run one turn of the event loop without waiting, so that callbacks which are ready can put mail."""
        self._require_task_thread("turn the loop")
        self._loop.stop()  # asyncio runs exactly one turn of a loop that was stopped before it runs
        self._loop.run_forever()

    def quiesce(self) -> None:
        """Refuse further mail; mail already accepted can still be taken (M1)."""
        self._require_task_thread("quiesce")
        self._collect_and_end(MailboxState.QUIESCED)

    def drain(self) -> list[Deliverable]:
        """Remove and return all mail, in the order in which it would have been taken (M38)."""
        self._require_task_thread("drain")
        self._collect()
        mails = [*self._urgent, *self._queue]
        self._urgent.clear()
        self._queue.clear()
        self._batch = 0
        return mails

    def close(self) -> list[Deliverable]:
        """Refuse further mail and return what was not taken (M5); a parked take raises."""
        self._require_task_thread("close")
        self._collect_and_end(_CLOSED)
        return self.drain()

    def _collect_and_end(self, state: MailboxState) -> None:
        """Collect the mails sent so far by other threads, and refuse later ones."""
        with self._lock:
            self._collect()
            if self._state is _OPEN or state is _CLOSED:
                self._state = state
        self._plain = self._state is _OPEN
        self._wake()

    def interrupt(self, error: Exception) -> None:
        """Make a take that would wait raise `error` from now on; mail wakes a take that is parked already (M9, M49).

        Any thread may call it. Answers to the interrupt of the task's thread, which ends a yield that would never
        return.
        """
        self._interruption = error

    def _wait(self) -> None:
        """Run the event loop until `_wake` stops it."""
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
    """A mailbox with the priority of one operator: for the mail it enqueues and the mail its yields run.

    Answers to Flink's `MailboxExecutorImpl`. Invariant: a yield runs mail of this operator or of operators downstream,
    never of one upstream (M25), and no deferrable mail (M8).
    """

    __slots__ = ("_deferrable", "_mailbox", "_priority", "_queue", "_thread", "_urgent", "on_task_thread")

    def __init__(
        self, mailbox: Mailbox, priority: int, *, urgent: bool = False, deferrable: bool = False
    ) -> None:
        self._mailbox = mailbox
        self._queue = mailbox._queue  # noqa: SLF001 - for the fast path of `execute` and `put`, as are the other private names
        self._thread = mailbox._thread  # noqa: SLF001
        self._priority = priority
        self._urgent = urgent
        self._deferrable = deferrable
        self.on_task_thread = mailbox.on_task_thread

    def execute(self, action: Callable[[], None], what: str) -> None:
        """Enqueue `action` as mail; an exception that it raises fails the task (M22). Any thread may call it."""
        # `Mailbox.put` inlined: this runs for each record.
        if self._mailbox._plain and not self._urgent and get_ident() == self._thread:  # noqa: SLF001
            self._queue.append(Mail(action, self._priority, what, self._deferrable))
        else:
            mail = Mail(action, self._priority, what, self._deferrable)
            self._mailbox.put(mail, urgent=self._urgent)

    @property
    def priority(self) -> int:
        return self._priority

    def deferring(self) -> MailboxExecutor:
        """An executor of the same priority whose mail is deferrable, for the rest of a long piece of work (M8)."""
        return MailboxExecutor(self._mailbox, self._priority, deferrable=True)

    def put(self, mail: Deliverable) -> None:
        """Enqueue an object that is its own mail."""
        if self._mailbox._plain and not self._urgent and get_ident() == self._thread:  # noqa: SLF001
            self._queue.append(mail)
        else:
            self._mailbox.put(mail, urgent=self._urgent)

    def submit(self, call: Callable[[], T], what: str) -> Future[T]:
        """Run `call` as mail; the future gets its result or exception, and the task does not fail (M23).

        The future is cancelled if the mailbox is closed before (M37).
        """
        future = _Submitted(call)
        self.execute(future.run, what)
        return future

    def yield_(self) -> None:
        """Run one mail of this operator or of one downstream; wait until there is one (M24, M25)."""
        self._mailbox.take(self._priority).action()

    def try_yield(self) -> bool:
        """As `yield_`, without waiting; return whether a mail was run."""
        return _run(self._mailbox.try_take(self._priority))

    def try_yield_ignoring_deferrable(self) -> bool:
        """As `try_yield`, with deferrable mail: for an operator that finishes (M24, FLINK-39481)."""
        return _run(self._mailbox.try_take_ignoring_deferrable(self._priority))

    def should_interrupt(self) -> bool:
        """Whether a long piece of work should pause because mail is waiting (M26)."""
        return self._mailbox.has_mail()


def _run(mail: Deliverable | None) -> bool:
    if mail is None:
        return False
    mail.action()
    return True


class _Submitted(Future[T]):
    """A future whose `run` is the action of a mail; `run` raises only interrupts such as KeyboardInterrupt."""

    def __init__(self, call: Callable[[], T]) -> None:
        super().__init__()
        self._call = call

    def run(self) -> None:
        if not self.set_running_or_notify_cancel():
            return  # the future was cancelled
        try:
            result = self._call()
        except BaseException as error:
            self.set_exception(error)
            if not isinstance(error, Exception):
                raise  # such as KeyboardInterrupt: also ends the process
        else:
            self.set_result(result)
