"""The buffers of FLIP-12's first design, ordered and unordered, and their entries.

Answers to `OrderedStreamElementQueue`, `UnorderedStreamElementQueue` and `StreamElementQueueEntry` of Flink 1.2 to
1.9. Invariant: an entry keeps its slot until its results are emitted (A11), and no record overtakes a watermark (A20).
Callers hold the checkpoint lock; Flink had a second lock in here.
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
from reference_impl.operator.result import Ending, Probe, ResultHandle, Supplier, checked_results


class BufferOwner(Protocol):
    """What an entry uses of its operator."""

    executor: MailboxExecutor
    closed: bool
    probe: Probe | None
    fail: Callable[[BaseException], None]
    """Fail the task."""

    def entry_completed(self, entry: BufferEntry) -> None: ...

    def time_out(self, value: object, handle: ResultHandle) -> None:
        """Let the function's `timeout` give an outcome."""


class BufferEntry:
    """An element in the buffer. Mutable: a record's entry gets results; a watermark's needs none."""

    __slots__ = ("element", "results")

    def __init__(self, element: QueueElement) -> None:
        self.element = element
        self.results: Sequence[Any] | None = () if isinstance(element, Watermark) else None

    def emit_to(self, emit: Callable[[OperatorInput], None]) -> None:
        """Emit a watermark unchanged, or a record's results in order, each with its timestamp (A39, A40)."""
        assert self.results is not None, f"{self.element} is emitted before it is complete"
        if isinstance(self.element, Record):
            for value in self.results:
                emit(Record(value=value, timestamp=self.element.timestamp))
        else:
            emit(self.element)


class RecordEntry(BufferEntry):
    """A record's entry, which is also the `ResultHandle` of its call. Mutable: settled once.

    Answers to `StreamElementQueueEntry`, and to `StreamRecordQueueEntry`, which was the `AsyncCollector`. Invariant:
    only the first outcome counts, from any thread (A36), and it takes effect as mail (A37).

    Difference from the first design: that one completed the entry on the caller's thread. As mail, a harness can hold
    it.
    """

    __slots__ = ("_outcome", "_owner", "_timed_out", "timer")

    element: Record

    def __init__(self, record: Record, owner: BufferOwner) -> None:
        super().__init__(record)
        self._owner = owner
        self._outcome = Lock()
        """Taken by the first outcome and never released."""
        self._timed_out = False
        self.timer: Timer | None = None

    @property
    def record_key(self) -> object:
        return self

    @property
    def done(self) -> bool:
        """Whether an outcome was accepted, even if the mail that carries it has not run (A43)."""
        return self._outcome.locked()

    def complete(self, results: Sequence[object]) -> None:
        """Report success with zero or more results, which are copied (A35)."""
        accepted = checked_results(results)
        if self._outcome.acquire(blocking=False):
            self._post(partial(self._settle, accepted), "complete an entry")

    def fail(self, error: BaseException) -> None:
        """Report a failure, which fails the task: at once, or from another thread by mail (A41)."""
        if not self._outcome.acquire(blocking=False):
            return
        if self._owner.executor.on_task_thread():
            self._fail(error)
        else:
            self._post(partial(self._fail, error), "fail an entry")

    def supply(self, supplier: Supplier) -> None:
        """Report success; `supplier` computes the results when the mail runs (A42)."""
        if self._outcome.acquire(blocking=False):
            self._post(
                partial(self._settle_supplied, supplier), "complete an entry with what its supplier gives"
            )

    def time_out(self) -> None:
        """Run as the timer's mail; without effect if there is an outcome (A43)."""
        if not self.done and not self._owner.closed:
            self._timed_out = True
            self._owner.time_out(self.element.value, self)

    def _settle(self, results: Sequence[object]) -> None:
        """May run after the close; it then has no visible effect, since the emitter has stopped (A68)."""
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
        """Fail the task, and free the slot as if there were no results (FLINK-6435)."""
        if self._owner.closed:
            return
        self._tell(Ending.FAIL, error=error)
        self._post(partial(self._complete, ()), "free the slot of a failed record")
        self._owner.fail(StreamElementFailed(self.element, error))

    def _complete(self, results: Sequence[object]) -> None:
        if self.timer is not None:
            cancel(self.timer)  # no timeout after the outcome (A48)
        self.results = results
        self._owner.entry_completed(self)

    def _tell(
        self, ending: Ending, *, results: Sequence[object] | None = None, error: BaseException | None = None
    ) -> None:
        """Report the outcome to the probe; after a timeout its ending is TIMEOUT."""
        ending = Ending.TIMEOUT if self._timed_out else ending
        if self._owner.probe is not None:
            self._owner.probe.settled(
                self.element, attempt=1, ending=ending, final=True, results=results, error=error
            )

    def _post(self, action: Callable[[], None], what: str) -> None:
        try:
            self._owner.executor.execute(action, what)
        except MailboxClosed:
            return  # the task has ended; the record is in its last snapshot (A38, A68)


class Buffer(Protocol):
    """Holds at most `capacity` entries, watermarks included (A8)."""

    def try_put(self, entry: BufferEntry) -> bool:
        """Append `entry`; if the buffer is full, change nothing and return False (A7)."""

    def entry_completed(self, entry: BufferEntry) -> None:
        """Note that the entry has its results."""

    @property
    def has_completed(self) -> bool:
        """Whether an entry may be emitted."""

    def emit_next(self, emit: Callable[[OperatorInput], None]) -> None:
        """Emit the next entry, and remove it afterwards."""

    def __iter__(self) -> Iterator[QueueElement]:
        """The elements in replay order."""

    def __len__(self) -> int: ...


class OrderedBuffer:
    """First in, first out (A15). Mutable."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._entries: deque[BufferEntry] = deque()

    def try_put(self, entry: BufferEntry) -> bool:
        if len(self._entries) == self._capacity:
            return False
        self._entries.append(entry)
        return True

    def entry_completed(self, entry: BufferEntry) -> None:
        """Does nothing: the head is examined when it is to be emitted."""

    @property
    def has_completed(self) -> bool:
        return bool(self._entries) and self._entries[0].results is not None

    def emit_next(self, emit: Callable[[OperatorInput], None]) -> None:
        self._entries[0].emit_to(emit)
        self._entries.popleft()

    def __iter__(self) -> Iterator[QueueElement]:
        return (entry.element for entry in self._entries)

    def __len__(self) -> int:
        return len(self._entries)


class UnorderedBuffer:
    """Emits records in order of completion, within their watermark set. Mutable.

    A watermark ends the set before it, is a set by itself, and is followed by an empty one (A18, A19). Completed
    entries of the first set are queued for the emitter; when that set has no open entry left, the next set becomes the
    first. So the emitter's queue may hold a whole set, its watermark and part of the next set, in this order.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._size = 0
        self._completed: deque[BufferEntry] = deque()
        self._sets: deque[_WatermarkSet] = deque([_WatermarkSet()])
        self._set_of: dict[BufferEntry, _WatermarkSet] = {}
        """The set of each open entry."""

    def try_put(self, entry: BufferEntry) -> bool:
        """Add a record to the last set; a watermark becomes a set by itself."""
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

    def entry_completed(self, entry: BufferEntry) -> None:
        """Mark the entry as completed in its set, in order of completion (A21, A23)."""
        its_set = self._set_of.pop(entry)
        del its_set.open[entry]
        its_set.completed.append(entry)
        self._advance()

    def _advance(self) -> None:
        """Queue completed entries for the emitter, set after set, up to the first set with an open entry."""
        while True:
            first = self._sets[0]
            self._completed += first.completed
            first.completed.clear()
            if first.open or len(self._sets) == 1:  # the last set stays, for later records (A22)
                return
            self._sets.popleft()

    @property
    def has_completed(self) -> bool:
        return bool(self._completed)

    def emit_next(self, emit: Callable[[OperatorInput], None]) -> None:
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

    def __init__(self, watermark: BufferEntry | None = None) -> None:
        self.open: dict[BufferEntry, None] = {}
        """In order of arrival."""
        self.completed: list[BufferEntry] = [watermark] if watermark is not None else []
