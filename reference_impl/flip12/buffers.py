"""The buffers of the first design, ordered and unordered, and the entry that an element has in one.

Answers to `OrderedStreamElementQueue`, `UnorderedStreamElementQueue` and `StreamElementQueueEntry` of Flink 1.2 to 1.9.
Invariant: an entry keeps its slot until its results are out (A11), and no record ever passes a watermark (A20). Whoever
reads or changes a buffer holds the checkpoint lock; there is none in here, where Flink had a second one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from threading import Lock
from typing import Any, Protocol

from reference_impl.elements import OperatorInput, QueueElement, Record, Watermark
from reference_impl.errors import CallbackFailed, MailboxClosed, StreamElementFailed
from reference_impl.mailbox.mailbox import MailboxExecutor
from reference_impl.mailbox.timers import Timer, cancel
from reference_impl.operator.probe import Ending, Probe
from reference_impl.operator.result import ResultHandle, Supplier, checked_results

__all__ = ["Buffer", "Entry", "OrderedBuffer", "Owner", "RecordEntry", "UnorderedBuffer"]


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
    """An element's entry in the buffer; a record's is also the handle that its call is given.

    A record's entry: a `reference_impl.operator.result.ResultHandle`. Mutable: settled once.

    Answers to `StreamElementQueueEntry`, and to `StreamRecordQueueEntry`, which was the `AsyncCollector`. Invariant:
    the first outcome wins, from whichever thread (A36), and what it does, it does as mail (A37).

    Deviation: the first design completed the entry in the caller's thread. By mail, a harness can hold it.
    """

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


class Buffer(Protocol):
    """At most `capacity` entries, watermarks included (A8)."""

    def try_put(self, entry: Entry) -> bool:
        """Take it in; False and no change if the buffer is full (A7)."""

    def entry_completed(self, entry: Entry) -> None:
        """It has its results now."""

    @property
    def has_completed(self) -> bool:
        """Whether an entry may leave."""

    def emit_next(self, emit: Callable[[OperatorInput], None]) -> None:
        """Emit the entry that may leave next; it leaves the buffer when all of it is out."""

    def __iter__(self) -> Iterator[QueueElement]:
        """The elements, in the order in which a restore must replay them."""

    def __len__(self) -> int: ...


class OrderedBuffer:
    """First in, first out (A15). Mutable."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._entries: deque[Entry] = deque()

    def try_put(self, entry: Entry) -> bool:
        """Behind all others."""
        if len(self._entries) == self._capacity:
            return False
        self._entries.append(entry)
        return True

    def entry_completed(self, entry: Entry) -> None:
        """Nothing: the entry knows, and is asked when it is the head."""

    @property
    def has_completed(self) -> bool:
        """Whether the head is done."""
        return bool(self._entries) and self._entries[0].results is not None

    def emit_next(self, emit: Callable[[OperatorInput], None]) -> None:
        """The head."""
        self._entries[0].emit_to(emit)
        self._entries.popleft()

    def __iter__(self) -> Iterator[QueueElement]:
        return (entry.element for entry in self._entries)

    def __len__(self) -> int:
        return len(self._entries)


class UnorderedBuffer:
    """Records leave as they complete, within their watermark set. Mutable.

    A watermark closes the set before it, is a set of its own, and is followed by an empty one (A18, A19). Completed
    entries of the first set stand in one row for the emitter; when no entry of that set is open any more, the next
    set is the first. So the row may hold a whole set, its watermark and a part of the next set, in this order.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._size = 0
        self._completed: deque[Entry] = deque()
        self._sets: deque[_WatermarkSet] = deque([_WatermarkSet()])
        self._set_of: dict[Entry, _WatermarkSet] = {}
        """Where each open entry is."""

    def try_put(self, entry: Entry) -> bool:
        """Into the last set, or as a set of its own."""
        if self._size == self._capacity:
            return False
        self._size += 1
        if isinstance(entry.element, Watermark):
            self._sets += (_WatermarkSet(entry), _WatermarkSet())
            self._advance()
        else:
            self._set_of[entry] = self._sets[-1]
            self._sets[-1].open[entry] = None
        return True

    def entry_completed(self, entry: Entry) -> None:
        """Into the row, if its set is the first; else it waits in its set, in the order of completion (A21, A23)."""
        its_set = self._set_of.pop(entry)
        del its_set.open[entry]
        its_set.completed.append(entry)
        self._advance()

    def _advance(self) -> None:
        """Completed entries into the row, set after set, up to the first that has an open entry."""
        while True:
            first = self._sets[0]
            self._completed += first.completed
            first.completed.clear()
            if first.open or len(self._sets) == 1:  # the last one stays, for later records (A22)
                return
            self._sets.popleft()

    @property
    def has_completed(self) -> bool:
        """Whether anything stands in the row."""
        return bool(self._completed)

    def emit_next(self, emit: Callable[[OperatorInput], None]) -> None:
        """The first of the row."""
        self._completed[0].emit_to(emit)
        self._completed.popleft()
        self._size -= 1

    def __iter__(self) -> Iterator[QueueElement]:
        sets = chain.from_iterable(chain(each.completed, each.open) for each in self._sets)
        return (entry.element for entry in chain(self._completed, sets))

    def __len__(self) -> int:
        return self._size


class _WatermarkSet:
    """A watermark, or the records between two. Mutable."""

    def __init__(self, watermark: Entry | None = None) -> None:
        self.open: dict[Entry, None] = {}
        """In order of arrival."""
        self.completed: list[Entry] = [watermark] if watermark is not None else []
