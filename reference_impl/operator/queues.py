"""The operator's queues, ordered, unordered, by key, and gated: what is in flight, and what may be emitted next.

Answers to Flink's `StreamElementQueue`, `StreamElementQueueEntry`, `OrderedStreamElementQueue` and
`UnorderedStreamElementQueue`, and to the order of FLIP-519 (decision 45). Invariant: an element keeps its slot, and
iteration yields it, from `try_put` until its results are passed to `emit` (A11, A12).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

from msgspec import Struct

from reference_impl.elements import QueueElement, Record, Watermark, WatermarkStatus
from reference_impl.errors import WrongState
from reference_impl.mailbox.availability import AVAILABLE, Availability

Emit = Callable[[QueueElement], None]

KeyOf = Callable[[Any], Hashable]
"""The key of a record's value; equal for equal values, also after a restore."""


class ElementQueue(Protocol):
    """Holds at most `capacity` elements, watermarks included (A8); iteration yields them in replay order (A12)."""

    @property
    def has_completed(self) -> bool:
        """Whether `emit_completed` would emit something (A10)."""

    @property
    def room(self) -> Availability:
        """Whether a slot is free; if not, a caller can wait on it (A14)."""

    def try_put(self, entry: Entry) -> bool:
        """Append `entry`; if the queue is full, change nothing and return False (A7)."""

    def emit_completed(self, emit: Emit) -> bool:
        """Emit one entry if one may leave; return whether another may leave now (A10)."""

    def entries(self) -> Iterator[Entry]: ...

    def __iter__(self) -> Iterator[QueueElement]: ...

    def __len__(self) -> int: ...


class Entry(Struct, eq=False):
    """An element in a queue. Mutable: a record's entry is completed with results; a watermark's needs none (A13).

    A struct, for one is made for each element; `CheckedEntry` refuses what a queue cannot hold.
    """

    element: QueueElement
    results: Sequence[Any] | None = None
    on_complete: Callable[[Entry], None] | None = None
    """Called once, at the first completion."""

    def complete_with(self, results: Sequence[object]) -> None:
        """Set the results; a second call before emission replaces them (A24)."""
        if type(self.element) is not Record:
            raise WrongState(f"{self.element} needs no results; only a record's entry is completed")
        is_first, self.results = self.results is None, results
        if is_first and self.on_complete is not None:
            self.on_complete(self)

    def emit_to(self, emit: Emit) -> None:
        """Emit a watermark unchanged, or a record's results in order, each with its timestamp (A39, A40)."""
        element, results = self.element, self.results
        assert results is not None, f"{element} is emitted before it is complete"
        if type(element) is not Record:
            emit(element)
            return
        for value in results:
            emit(Record(value=value, timestamp=element.timestamp))


class CheckedEntry(Entry, eq=False):
    """An entry of an element whose kind is not known; a watermark's is complete from the beginning."""

    def __post_init__(self) -> None:
        element = self.element
        if type(element) is not Record:
            if not isinstance(element, Watermark | WatermarkStatus):
                raise TypeError(
                    f"Cannot enqueue {element!r}; a queue holds records, watermarks and their status"
                )
            self.results = ()


def checked_capacity(capacity: int) -> int:
    """`capacity`, or ValueError if no queue can have it (A2)."""
    if type(capacity) is not int or capacity <= 0:
        raise ValueError(f"the capacity is {capacity!r}; give a whole number, 1 or more")
    return capacity


class OrderedQueue:
    """First in, first out, for records and watermarks alike. Mutable.

    Answers to Flink's `OrderedStreamElementQueue`. Invariant: only the head is emitted, so the order of output is the
    order of arrival (A15, A16), and a slow head holds back everything behind it (A17).
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = checked_capacity(capacity)
        self._entries: deque[Entry] = deque()
        self._room = AVAILABLE

    @property
    def room(self) -> Availability:
        if len(self._entries) == self._capacity and self._room is AVAILABLE:
            self._room = Availability()  # ends when an entry leaves
        return self._room

    def try_put(self, entry: Entry) -> bool:
        if len(self._entries) == self._capacity:
            return False
        self._entries.append(entry)
        return True

    @property
    def has_completed(self) -> bool:
        return bool(self._entries) and self._entries[0].results is not None

    def emit_completed(self, emit: Emit) -> bool:
        entries = self._entries
        if not entries or entries[0].results is None:
            return False
        entries.popleft().emit_to(emit)
        if self._room is not AVAILABLE:
            room, self._room = self._room, AVAILABLE
            room.end()
        return bool(entries) and entries[0].results is not None

    def entries(self) -> Iterator[Entry]:
        return iter(self._entries)

    def __iter__(self) -> Iterator[QueueElement]:
        return (entry.element for entry in self._entries)

    def __len__(self) -> int:
        return len(self._entries)


class UnorderedQueue:
    """Records are emitted as their segment lets them, but never across a watermark. Mutable.

    Answers to Flink's `UnorderedStreamElementQueue`. The queue is a row of segments: each watermark is a segment, and
    so are the records between two watermarks (A18, A19). Invariant: only the first segment emits, so a watermark is
    emitted after all records that arrived before it, and before all that arrived after it (A20). A segment iterates in
    order of arrival, unlike Flink's, which keeps a hash set (A25).
    """

    def __init__(self, capacity: int, *, segment: Callable[[], Segment] | None = None) -> None:
        self._capacity = checked_capacity(capacity)
        self._new_segment = segment or Segment
        self._segments: deque[Segment] = deque([self._new_segment()])
        self._size = 0
        self._room = AVAILABLE

    @property
    def room(self) -> Availability:
        if self._size == self._capacity and self._room is AVAILABLE:
            self._room = Availability()  # ends when an entry leaves
        return self._room

    def try_put(self, entry: Entry) -> bool:
        if self._size == self._capacity:
            return False
        self._size += 1
        if entry.results is None:
            self._segments[-1].add(entry)
        else:
            self._put_watermark(entry)
        return True

    def _put_watermark(self, entry: Entry) -> None:
        """Use the last segment if it is empty, else a new one; append an empty one for later records (A19)."""
        if self._segments[-1].members:
            self._segments.append(self._new_segment())
        self._segments[-1].add(entry)
        self._segments[-1].completed.append(entry)
        self._segments.append(self._new_segment())

    @property
    def has_completed(self) -> bool:
        return bool(self._segments[0].completed)

    def emit_completed(self, emit: Emit) -> bool:
        first = self._segments[0]
        if not first.completed:
            return False
        entry = first.completed.popleft()
        del first.members[entry]
        self._size -= 1
        if not first.members and len(self._segments) > 1:  # the last segment stays, for later records (A22)
            self._segments.popleft()
        entry.emit_to(emit)
        if self._room is not AVAILABLE:
            room, self._room = self._room, AVAILABLE
            room.end()
        return bool(self._segments[0].completed)

    def entries(self) -> Iterator[Entry]:
        return (entry for segment in self._segments for entry in segment.members)

    def __iter__(self) -> Iterator[QueueElement]:
        return (entry.element for entry in self.entries())

    def __len__(self) -> int:
        return self._size


class Segment:
    """Entries between two watermarks, emitted in the order of their completions. Mutable."""

    __slots__ = ("completed", "members")

    def __init__(self) -> None:
        self.members: dict[Entry, None] = {}  # in order of arrival
        self.completed: deque[Entry] = (
            deque()
        )  # what may leave, in the order in which completions were processed (A21)

    def add(self, entry: Entry) -> None:
        self.members[entry] = None
        entry.on_complete = self.completed.append


class KeyedSegment(Segment):
    """Entries between two watermarks; those of one key are emitted in order of arrival. Mutable.

    Invariant: a line holds the entries of one key that may not leave yet, and its first one is not complete.
    """

    __slots__ = ("_key_of", "_lines")

    def __init__(self, key_of: KeyOf) -> None:
        super().__init__()
        self._key_of = key_of
        self._lines: dict[Hashable, deque[Entry]] = {}

    def add(self, entry: Entry) -> None:
        self.members[entry] = None
        if type(entry.element) is Record:
            key = self._key_of(entry.element.value)
            self._lines.setdefault(key, deque()).append(entry)
            entry.on_complete = partial(self._completed, key)

    def _completed(self, key: Hashable, _: Entry) -> None:
        """Let the first entries of `key` leave, up to the first one without results."""
        line = self._lines[key]
        while line and line[0].results is not None:
            self.completed.append(line.popleft())
        if not line:
            del self._lines[key]


def keyed_queue(capacity: int, key_of: KeyOf) -> UnorderedQueue:
    """A queue that keeps the order of each key, and lets records of different keys overtake (FLIP-519).

    Watermarks are as in unordered mode, and segments leave one after the other, so a key's order holds across them.
    """
    return UnorderedQueue(capacity, segment=partial(KeyedSegment, key_of))


class GatedQueue:
    """Wraps `queue`; calls `resume` when `downstream` becomes available after an emission was held back. Mutable.

    Answers to the soft back pressure of Flink's operator (FLINK-39835). Invariant: nothing is emitted while
    downstream is unavailable, and exactly one emission is scheduled when it becomes available again (A33).
    """

    def __init__(
        self, queue: ElementQueue, *, downstream: Callable[[], Availability], resume: Callable[[], None]
    ) -> None:
        self._queue = queue
        self._downstream = downstream
        self._resume = resume
        self._held = False
        self.try_put = queue.try_put
        self.entries = queue.entries

    @property
    def room(self) -> Availability:
        return self._queue.room

    @property
    def has_completed(self) -> bool:
        """Whether an entry is complete, even if it is held back."""
        return self._queue.has_completed

    def emit_completed(self, emit: Emit) -> bool:
        downstream = self._downstream()
        if downstream:
            return self._queue.emit_completed(emit)
        if not self._held:
            self._held = True
            downstream.then(self._let_go)
        return False

    def _let_go(self) -> None:
        self._held = False
        self._resume()

    def __iter__(self) -> Iterator[QueueElement]:
        return iter(self._queue)

    def __len__(self) -> int:
        return len(self._queue)
