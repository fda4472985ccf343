"""The handle through which an asynchronous call gives its outcome.

Answers to Flink's `ResultFuture` and `AsyncWaitOperator.ResultHandler`. Invariant: the first outcome wins
and every later one is ignored, so a record is settled once (A36); nothing is emitted in the caller's
frame, for an accepted outcome goes to the operator as mail (A37).

A foreign thread's results are accepted in its own frame, as in Flink: CPython switches threads at calls and jumps
only, so the test and the assignment in `complete` are one step. Its errors are accepted when they arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from threading import get_ident
from typing import Any, Protocol

from reference_impl.elements import OperatorInput, Record
from reference_impl.errors import CallbackFailed, MailboxClosed, StreamElementFailed
from reference_impl.mailbox.mailbox import Deliverable
from reference_impl.operator.probe import Ending, Probe
from reference_impl.operator.queues import ElementQueue, Entry

__all__ = ["Owner", "ResultHandle", "Settlement", "Supplier", "checked_results"]

Supplier = Callable[[], Sequence[Any]]
"""Makes the results on the task's thread, where the function's own objects may be touched (A42)."""


class ResultHandle(Protocol):
    """What a call is given to end with; any thread may use it, and all but the first use is ignored."""

    @property
    def record_key(self) -> object:
        """Hashable, and the same for all attempts of one record and for its timeout."""

    @property
    def done(self) -> bool:
        """Whether the record has its outcome, even if its mail still waits (A43)."""

    def complete(self, results: Sequence[Any]) -> None:
        """The call went well and gave these 0..n results; they are copied."""

    def fail(self, error: BaseException) -> None:
        """The call failed; unless it is retried, the task will fail (A41)."""

    def supply(self, supplier: Supplier) -> None:
        """The call went well; `supplier` gives the results when its mail runs (A42)."""


class Owner(Protocol):
    """What a handle needs of its operator."""

    thread: int
    priority: int
    closed: bool
    probe: Probe | None
    queue: ElementQueue
    emit: Callable[[OperatorInput], None]
    put: Callable[[Deliverable], None]
    """Put a mail that is there already."""
    execute: Callable[[Callable[[], None], str], None]
    """Run an action as mail."""
    fail: Callable[[BaseException], None]
    """Fail the task."""

    def emit_completed(self) -> None:
        """Emit one entry, if one may leave."""

    def emit_next(self) -> None:
        """The same as mail."""

    def time_out(self, value: Any, handle: ResultHandle) -> None:
        """Ask the user's function for another outcome."""


class Settlement(Entry):
    """A record's place in the queue, its one outcome, and the mail that brings it. Mutable.

    Without retry it is the handle itself; else the record's attempts stand before it (`reference_impl.operator.retry`).
    One object for what Flink has four for, since it is made once a record (decision 11).
    """

    __slots__ = ("outcome", "owner", "timed_out")  # `timed_out` is there only once it is true

    element: Record
    owner: Owner
    outcome: tuple[Any, ...] | None
    """What was accepted, even if its mail still waits (A43)."""

    what = "settle a record"
    deferrable = False

    def __init__(self, owner: Owner, record: Record) -> None:
        # Without the parent's constructor, which asks what kind of element it is.
        self.owner = owner
        self.element = record
        self.results = self.on_complete = self.outcome = None

    @property
    def priority(self) -> int:
        """As mail: the operator's (M7)."""
        return self.owner.priority

    @property
    def record_key(self) -> object:
        """Itself."""
        return self

    @property
    def done(self) -> bool:
        """Whether an outcome was accepted."""
        return self.outcome is not None

    def complete(self, results: Sequence[Any]) -> None:
        """Accept `results`, unless there is an outcome already; from any thread."""
        accepted = tuple(results) if type(results) is list else checked_results(results)
        if self.outcome is None:  # and nothing comes between this and the next line: one thread wins
            self.outcome = accepted
            try:
                self.owner.put(self)
            except MailboxClosed:
                return  # the task is over; the record is in its last snapshot and will be called anew (A38, A68)

    def fail(self, error: BaseException) -> None:
        """Fail the task at once, and free the slot with no results by way of mail (A41, FLINK-6435)."""
        if get_ident() != self.owner.thread:
            self.post(partial(self.fail, error), "error from a foreign thread")
        elif self.outcome is None and not self.owner.closed:
            self.outcome = ()
            self.tell(Ending.FAIL, error=error)
            self.post(self._free, "free the slot of a failed record")
            self.owner.fail(StreamElementFailed(self.element, error))

    def supply(self, supplier: Supplier) -> None:
        """Accept what `supplier` will give; if it raises, the task fails."""
        if self.outcome is None:
            self.outcome = ()
            self.post(
                partial(self._settle_supplied, supplier), "settle a record with what its supplier gives"
            )

    def action(self) -> None:
        """The mail of an accepted outcome (A37): no timeout any more (A48), and one entry may leave (A38)."""
        if self.owner.probe is not None:
            self.tell(Ending.OK, results=self.outcome)
        self.results = self.outcome
        if self.on_complete is not None:
            self.on_complete(self)
        owner = self.owner
        if owner.queue.emit_completed(owner.emit):
            owner.emit_next()

    def _free(self) -> None:
        """The mail of a failure, of which the probe has heard: no results, but the slot is free (A41)."""
        if not self.owner.closed:
            self.complete_with(())
            self.owner.emit_completed()

    def try_cancel(self) -> None:
        """As mail that was dropped: nobody waits for it."""

    def _settle_supplied(self, supplier: Supplier) -> None:
        if self.owner.closed:
            return
        try:
            self.outcome = checked_results(supplier())
        except Exception as raised:
            raise CallbackFailed("supplier", self.element.value, raised) from raised
        self.action()

    def time_out(self) -> None:
        """The timer's mail. An outcome that was accepted wins, even if its own mail still waits (A43)."""
        if self.outcome is None and not self.owner.closed:
            self.timed_out = True
            self.owner.time_out(self.element.value, self)

    def tell(
        self, ending: Ending, *, results: Sequence[Any] | None = None, error: BaseException | None = None
    ) -> None:
        """Tell the probe of the outcome; of one that comes after the timeout, as the timeout's."""
        probe = self.owner.probe
        if probe is not None:
            ending = Ending.TIMEOUT if hasattr(self, "timed_out") else ending
            probe.settled(self.element, attempt=1, ending=ending, final=True, results=results, error=error)

    def post(self, action: Callable[[], None], what: str) -> None:
        """Run `action` as mail, if the task still has any."""
        try:
            self.owner.execute(action, what)
        except MailboxClosed:
            return  # as in `complete`, which says it again for it is run for each record


def checked_results(results: Sequence[Any]) -> tuple[Any, ...]:
    """A copy, so that a list which its owner goes on using is nothing to us; TypeError for what is none (A35)."""
    if not isinstance(results, (list, tuple)):
        raise TypeError(f"complete() takes a list of results, not {results!r}; for no output give []")
    return tuple(results)
