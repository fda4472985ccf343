"""The handle through which an asynchronous call reports its outcome, and the probe that observes both.

Flink has no such class, and its operator has no metrics of its own (A92). Invariant: a report precedes the
visible effect of what it reports, and never changes what the operator does.

Answers to Flink's `ResultFuture` and `AsyncWaitOperator.ResultHandler`. Invariant: only the first outcome counts (A36),
and it reaches the operator as mail: nothing is emitted on the stack of the caller who reports it (A37).

`complete` accepts an outcome on the calling thread, as in Flink: CPython switches threads only at calls and jumps, so
its test and assignment of `outcome` are one step. `fail` first moves to the task's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from threading import get_ident
from typing import Any, Protocol

from reference_impl.elements import OperatorInput, Record
from reference_impl.errors import CallbackFailed, MailboxClosed, StreamElementFailed
from reference_impl.mailbox.mailbox import Deliverable
from reference_impl.operator.queues import ElementQueue, Entry


class Ending(StrEnum):
    """How one attempt of a record's call ended, as the operator accepted it."""

    OK = "ok"
    FAIL = "fail"
    TIMEOUT = "timeout"


class Probe(Protocol):
    """Receives each call and each accepted outcome, on the task's thread."""

    def called(self, record: Record, *, attempt: int) -> None:
        """The function is about to be invoked for `record`; the first attempt is 1."""

    def settled(
        self,
        record: Record,
        *,
        attempt: int,
        ending: Ending,
        final: bool,
        results: Sequence[Any] | None = None,
        error: BaseException | None = None,
    ) -> None:
        """An outcome was accepted: the `results` of OK or TIMEOUT, or the `error` of a failure."""


Supplier = Callable[[], Sequence[object]]
"""Computes the results on the task's thread, so it may use objects that only this thread may touch (A42)."""


class ResultHandle(Protocol):
    """Given to each call to report its outcome, from any thread. Only the first report counts."""

    @property
    def record_key(self) -> object:
        """Hashable; the same for all attempts of one record and for its timeout."""

    @property
    def done(self) -> bool:
        """Whether the record has an outcome, even if the mail that carries it has not run (A43)."""

    def complete(self, results: Sequence[object]) -> None:
        """Report success with zero or more results, which are copied."""

    def fail(self, error: BaseException) -> None:
        """Report a failure; unless it is retried, it fails the task (A41)."""

    def supply(self, supplier: Supplier) -> None:
        """Report success; `supplier` computes the results when the mail runs (A42)."""


class Owner(Protocol):
    """What a handle uses of its operator."""

    thread: int
    priority: int
    closed: bool
    probe: Probe | None
    queue: ElementQueue
    emit: Callable[[OperatorInput], None]
    put: Callable[[Deliverable], None]  # enqueues a mail
    execute: Callable[[Callable[[], None], str], None]  # enqueues an action as mail
    fail: Callable[[BaseException], None]  # fails the task

    def emit_completed(self) -> None: ...

    def emit_next(self) -> None: ...

    def time_out(self, value: object, handle: ResultHandle) -> None: ...


class Settlement(Entry, eq=False, kw_only=True):
    """A record's queue entry, result handle, outcome, timer entry and mail in one object. Mutable.

    It is made for every record, so one object stands for what Flink has four for (decision 11). With retry, each
    attempt has a handle of its own in front of it (`reference_impl.operator.retry`).
    """

    element: Record
    owner: Owner
    outcome: tuple[object, ...] | None = None
    """The accepted results, from before the mail that carries them has run; () for a failure (A43)."""
    timed_out: bool = False

    what = "settle a record"
    deferrable = False

    @property
    def priority(self) -> int:
        return self.owner.priority

    @property
    def record_key(self) -> object:
        return self

    @property
    def done(self) -> bool:
        return self.outcome is not None

    def complete(self, results: Sequence[object]) -> None:
        accepted = tuple(results) if type(results) is list else checked_results(results)
        if self.outcome is None:  # no thread switch between this line and the next
            self.outcome = accepted
            try:
                self.owner.put(self)
            except MailboxClosed:
                return  # the task has ended; the record is in its last snapshot, to be called again (A38, A68)

    def fail(self, error: BaseException) -> None:
        """Fail the task at once; a mail then frees the slot, without results (A41, FLINK-6435)."""
        if get_ident() != self.owner.thread:
            self.post(partial(self.fail, error), "error from a foreign thread")
        elif self.outcome is None and not self.owner.closed:
            self.outcome = ()
            self.tell(Ending.FAIL, error=error)
            self.post(self._free, "free the slot of a failed record")
            self.owner.fail(StreamElementFailed(self.element, error))

    def supply(self, supplier: Supplier) -> None:
        if self.outcome is None:
            self.outcome = ()
            what = "settle a record with what its supplier gives"
            self.post(partial(self._settle_supplied, supplier), what)

    def action(self) -> None:
        """Run as mail (A37): complete the entry, and emit one entry if one may leave (A38)."""
        owner = self.owner
        if owner.probe is not None:
            self.tell(Ending.OK, results=self.outcome)
        self.results = self.outcome
        if self.on_complete is not None:
            self.on_complete(self)
        if owner.queue.emit_completed(owner.emit):
            owner.emit_next()

    def _free(self) -> None:
        if not self.owner.closed:
            self.complete_with(())
            self.owner.emit_completed()

    def try_cancel(self) -> None:
        """Called when the mailbox drops this mail: nothing to cancel."""

    def _settle_supplied(self, supplier: Supplier) -> None:
        if self.owner.closed:
            return
        try:
            self.outcome = checked_results(supplier())
        except Exception as raised:
            raise CallbackFailed("supplier", self.element.value, raised) from raised
        self.action()

    def time_out(self) -> None:
        """Run as the timer's mail. An accepted outcome wins, even if its own mail has not run yet (A43)."""
        if self.outcome is None and not self.owner.closed:
            self.timed_out = True
            self.owner.time_out(self.element.value, self)

    def tell(
        self, ending: Ending, *, results: Sequence[object] | None = None, error: BaseException | None = None
    ) -> None:
        """Report the outcome to the probe; after a timeout its ending is TIMEOUT."""
        probe = self.owner.probe
        if probe is not None:
            ending = Ending.TIMEOUT if self.timed_out else ending
            probe.settled(self.element, attempt=1, ending=ending, final=True, results=results, error=error)

    def post(self, action: Callable[[], None], what: str) -> None:
        """Enqueue `action` as mail, unless the mailbox is closed."""
        try:
            self.owner.execute(action, what)
        except MailboxClosed:
            return  # the same case as in `complete`


def checked_results(results: Sequence[object]) -> tuple[object, ...]:
    """A copy of `results`, which the caller may go on changing; TypeError if it is no list or tuple (A35)."""
    if not isinstance(results, (list, tuple)):
        raise TypeError(f"complete() takes a list of results, not {results!r}; for no output give []")
    return tuple(results)
