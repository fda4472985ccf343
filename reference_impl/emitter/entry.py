"""An element's entry in the buffer; a record's is also the handle that its call is given.

Answers to `StreamElementQueueEntry`, and to `StreamRecordQueueEntry`, which was the `AsyncCollector`. Invariant: the
first outcome wins, from whichever thread (A36), and what it does, it does as mail (A37).

Deviation: the first design completed the entry in the caller's thread. By mail, a harness can hold it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock
from typing import Any, Protocol

from reference_impl.elements import OperatorInput, QueueElement, Record, Watermark
from reference_impl.errors import CallbackFailed, MailboxClosed, StreamElementFailed
from reference_impl.mailbox_executor import MailboxExecutor
from reference_impl.probe import Ending, Probe
from reference_impl.result import ResultHandle, Supplier, checked_results
from reference_impl.timers import Timer, cancel

__all__ = ["Entry", "Owner", "RecordEntry"]


class Owner(Protocol):
    """What an entry needs of its operator."""

    executor: MailboxExecutor
    closed: bool
    probe: Probe | None
    fail: Callable[[BaseException], None]
    """Fail the task."""

    def entry_completed(self, entry: Entry) -> None:
        """The entry has its results."""

    def time_out(self, value: Any, handle: ResultHandle) -> None:
        """Ask the user's function for another outcome."""


class Entry:
    """An element's place in the buffer. Mutable: a record's gets its results; a watermark's is born with none."""

    __slots__ = ("element", "results")

    def __init__(self, element: QueueElement) -> None:
        self.element = element
        self.results: Sequence[Any] | None = () if isinstance(element, Watermark) else None

    def emit_to(self, emit: Callable[[OperatorInput], None]) -> None:
        """A watermark as it came; a record's results in order, with its timestamp (A39, A40)."""
        assert self.results is not None, f"{self.element} is emitted before it is complete"
        if isinstance(self.element, Record):
            for value in self.results:
                emit(Record(value=value, timestamp=self.element.timestamp))
        else:
            emit(self.element)


class RecordEntry(Entry):
    """A record's entry: a `reference_impl.result.ResultHandle`. Mutable: settled once."""

    __slots__ = ("_outcome", "_owner", "_timed_out", "timer")

    element: Record

    def __init__(self, record: Record, owner: Owner) -> None:
        super().__init__(record)
        self._owner = owner
        self._outcome = Lock()
        """Taken by the first outcome, never given back."""
        self._timed_out = False
        self.timer: Timer | None = None

    @property
    def record_key(self) -> object:
        """Itself."""
        return self

    @property
    def done(self) -> bool:
        """Whether an outcome was accepted, even if its mail still waits (A43)."""
        return self._outcome.locked()

    def complete(self, results: Sequence[Any]) -> None:
        """The call went well and gave these 0..n results; they are copied (A35)."""
        accepted = checked_results(results)
        if self._outcome.acquire(blocking=False):
            self._post(partial(self._settle, accepted), "complete an entry")

    def fail(self, error: BaseException) -> None:
        """The call failed, and so will the task: at once, or from a foreign thread by mail (A41)."""
        if not self._outcome.acquire(blocking=False):
            return
        if self._owner.executor.on_task_thread():
            self._fail(error)
        else:
            self._post(partial(self._fail, error), "fail an entry")

    def supply(self, supplier: Supplier) -> None:
        """The call went well; `supplier` gives the results when its mail runs (A42)."""
        if self._outcome.acquire(blocking=False):
            self._post(
                partial(self._settle_supplied, supplier), "complete an entry with what its supplier gives"
            )

    def time_out(self) -> None:
        """The timer's mail: of effect only where there is no outcome yet (A43)."""
        if not self.done and not self._owner.closed:
            self._timed_out = True
            self._owner.time_out(self.element.value, self)

    def _settle(self, results: Sequence[Any]) -> None:
        """After the close too: then nobody listens, and the emitter has stopped (A68)."""
        self._tell(Ending.OK, results=results)
        self._complete(results)

    def _settle_supplied(self, supplier: Supplier) -> None:
        if self._owner.closed:
            return
        try:
            results = checked_results(supplier())
        except Exception as raised:
            raise CallbackFailed("supplier", self.element.value, raised) from raised
        self._settle(results)

    def _fail(self, error: BaseException) -> None:
        """Fail the task, and let the buffer go on as if there were no results (FLINK-6435)."""
        if self._owner.closed:
            return
        self._tell(Ending.FAIL, error=error)
        self._post(partial(self._complete, ()), "free the slot of a failed record")
        self._owner.fail(StreamElementFailed(self.element, error))

    def _complete(self, results: Sequence[Any]) -> None:
        if self.timer is not None:
            cancel(self.timer)  # A48
        self.results = results
        self._owner.entry_completed(self)

    def _tell(
        self, ending: Ending, *, results: Sequence[Any] | None = None, error: BaseException | None = None
    ) -> None:
        """Tell the probe; what comes after the timeout counts as the timeout's."""
        ending = Ending.TIMEOUT if self._timed_out else ending
        if self._owner.probe is not None:
            self._owner.probe.settled(
                self.element, attempt=1, ending=ending, final=True, results=results, error=error
            )

    def _post(self, action: Callable[[], None], what: str) -> None:
        try:
            self._owner.executor.execute(action, what)
        except MailboxClosed:
            return  # the task is over; the record is in its last snapshot (A38, A68)
