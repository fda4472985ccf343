"""The operator's queues, ordered and unordered: what is in flight, and in which order it may leave.

Answers to Flink's `StreamElementQueue`, `StreamElementQueueEntry`, `OrderedStreamElementQueue` and
`UnorderedStreamElementQueue`. Invariant: an element that was put keeps its slot, and is listed by iteration, until its
results are handed to `emit` (A11, A12).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from reference_impl.elements import QueueElement, Record, Watermark, WatermarkStatus
from reference_impl.errors import WrongState
from reference_impl.mailbox.availability import AVAILABLE, Availability

__all__ = ["ElementQueue", "Emit", "Entry", "OrderedQueue", "UnorderedQueue", "checked_capacity"]

Emit = Callable[[QueueElement], None]


class ElementQueue(Protocol):
    """At most `capacity` elements, watermarks included (A8); iterates over the elements put in (A12)."""

    @property
    def has_completed(self) -> bool:
        """Whether `emit_completed` would emit (A10)."""

    @property
    def room(self) -> Availability:
        """Whether there is a slot, and the wait for one (A14)."""

    def try_put(self, entry: Entry) -> bool:
        """Take `entry` in; False and no change if the queue is full (A7)."""

    def emit_completed(self, emit: Emit) -> bool:
        """Emit the results of one entry, or nothing if none may leave; whether one more may (A10)."""

    def entries(self) -> Iterator[Entry]:
        """All entries, in the order in which a restore must replay them."""

    def __iter__(self) -> Iterator[QueueElement]: ...

    def __len__(self) -> int: ...


class Entry:
    """An element's place in a queue. Mutable: gets its results once; a watermark is born with none (A13).

    What calls the function for a record is built on it (`reference_impl.operator.result`), so that each record needs
    one object for its place, its handle and its outcome.
    """

    __slots__ = ("element", "on_complete", "results")

    def __init__(self, element: QueueElement) -> None:
        self.element = element
        self.results: Sequence[Any] | None = None
        self.on_complete: Callable[[Entry], None] | None = None
        """Set by a queue that must know when an entry is complete."""
        if type(element) is not Record:
            if not isinstance(element, Watermark | WatermarkStatus):
                raise TypeError(
                    f"Cannot enqueue {element!r}; a queue holds records, watermarks and their status"
                )
            self.results = ()

    def complete_with(self, results: Sequence[Any]) -> None:
        """Set the results; again before emission, replace them (A24)."""
        if type(self.element) is not Record:
            raise WrongState(f"{self.element} needs no results; only a record's entry is completed")
        is_first = self.results is None
        self.results = results
        if is_first and self.on_complete is not None:
            self.on_complete(self)

    def emit_to(self, emit: Emit) -> None:
        """A watermark as it came; a record's results in order, with its timestamp (A39, A40)."""
        element, results = self.element, self.results
        assert results is not None, f"{element} is emitted before it is complete"
        if type(element) is not Record:
            emit(element)
            return
        for value in results:
            emit(Record(value=value, timestamp=element.timestamp))


def checked_capacity(capacity: int) -> int:
    """`capacity`, if a queue can have it (A2)."""
    if type(capacity) is not int or capacity <= 0:
        raise ValueError(f"the capacity is {capacity!r}; give a whole number, 1 or more")
    return capacity


class OrderedQueue:
    """The ordered queue: first in, first out, for records and watermarks alike.

    A queue whose slow head holds back all behind it (A17). Mutable.

    Answers to Flink's `OrderedStreamElementQueue`. Invariant: only the head is ever emitted, so the order of output is
    the order of arrival, whatever the order of completion (A15, A16).
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = checked_capacity(capacity)
        self._entries: deque[Entry] = deque()
        self._wait: Availability | None = None
        """Somebody waits for a slot."""

    @property
    def room(self) -> Availability:
        """Whether there is a slot."""
        if len(self._entries) < self._capacity:
            return AVAILABLE
        if self._wait is None:
            self._wait = Availability()
        return self._wait

    def try_put(self, entry: Entry) -> bool:
        """Behind all others, if there is room."""
        if len(self._entries) == self._capacity:
            return False
        self._entries.append(entry)
        return True

    @property
    def has_completed(self) -> bool:
        """Whether the head is done."""
        return bool(self._entries) and self._entries[0].results is not None

    def emit_completed(self, emit: Emit) -> bool:
        """The head, if it is done."""
        entries = self._entries
        if not entries or entries[0].results is None:
            return False
        entry = entries.popleft()
        element = entry.element
        if type(element) is Record:  # `Entry.emit_to`, without the call: once a record
            for value in entry.results or ():
                emit(Record(value=value, timestamp=element.timestamp))
        else:
            emit(element)
        if self._wait is not None:
            wait, self._wait = self._wait, None
            wait.end()
        return bool(entries) and entries[0].results is not None

    def entries(self) -> Iterator[Entry]:
        """In order of arrival."""
        return iter(self._entries)

    def __iter__(self) -> Iterator[QueueElement]:
        return (entry.element for entry in self._entries)

    def __len__(self) -> int:
        return len(self._entries)


class UnorderedQueue:
    """The unordered queue: records leave as they complete, but no record ever passes a watermark.

    A queue in which only watermarks keep their place. Mutable.

    Answers to Flink's `UnorderedStreamElementQueue`. The queue is a row of segments; a watermark is a segment of its
    own, the records between two watermarks are one (A18, A19). Invariant: only the first segment emits, so each
    watermark leaves after every record before it and before every record behind it (A20).

    Refinement: a segment lists its entries in order of arrival; Flink's lists a hash set (A25).
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = checked_capacity(capacity)
        self._segments: deque[_Segment] = deque([_Segment()])
        self._size = 0
        self._wait: Availability | None = None
        """Somebody waits for a slot."""

    @property
    def room(self) -> Availability:
        """Whether there is a slot."""
        if self._size < self._capacity:
            return AVAILABLE
        if self._wait is None:
            self._wait = Availability()
        return self._wait

    def try_put(self, entry: Entry) -> bool:
        """Behind all others, if there is room."""
        if self._size == self._capacity:
            return False
        self._size += 1
        if entry.results is None:
            self._segments[-1].add(entry)
        else:
            self._put_watermark(entry)
        return True

    def _put_watermark(self, entry: Entry) -> None:
        """Into the last segment if that is empty, else into its own; behind it a fresh one (A19)."""
        if self._segments[-1].members:
            self._segments.append(_Segment())
        self._segments[-1].add(entry)
        self._segments[-1].completed.append(entry)
        self._segments.append(_Segment())

    @property
    def has_completed(self) -> bool:
        """Whether the first segment has an entry that is done."""
        return bool(self._segments[0].completed)

    def emit_completed(self, emit: Emit) -> bool:
        """The first segment's earliest completed entry, if there is one."""
        first = self._segments[0]
        if not first.completed:
            return False
        entry = first.completed.popleft()
        del first.members[entry]
        self._size -= 1
        if not first.members and len(self._segments) > 1:  # one always remains, for later records (A22)
            self._segments.popleft()
        entry.emit_to(emit)
        if self._wait is not None:
            wait, self._wait = self._wait, None
            wait.end()
        return bool(self._segments[0].completed)

    def entries(self) -> Iterator[Entry]:
        """In order of arrival, segment after segment."""
        return (entry for segment in self._segments for entry in segment.members)

    def __iter__(self) -> Iterator[QueueElement]:
        return (entry.element for entry in self.entries())

    def __len__(self) -> int:
        return self._size


class _Segment:
    """Entries that may leave in any order. Mutable."""

    __slots__ = ("completed", "members")

    def __init__(self) -> None:
        self.members: dict[Entry, None] = {}
        """All of them, in order of arrival."""
        self.completed: deque[Entry] = deque()
        """Those that may leave, in the order in which their completions were processed (A21)."""

    def add(self, entry: Entry) -> None:
        self.members[entry] = None
        entry.on_complete = self.completed.append
