"""The unordered queue: records leave as they complete, but no record ever passes a watermark.

Answers to Flink's `UnorderedStreamElementQueue`. The queue is a row of segments; a watermark is a segment of
its own, the records between two watermarks are one (A18, A19). Invariant: only the first segment emits, so
each watermark leaves after every record before it and before every record behind it (A20).

Refinement: a segment lists its entries in order of arrival; Flink's lists a hash set (A25).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from reference_impl.elements import QueueElement
from reference_impl.queues.availability import AVAILABLE, Availability
from reference_impl.queues.protocol import Emit, Entry, checked_capacity

__all__ = ["UnorderedQueue"]


class UnorderedQueue:
    """A queue in which only watermarks keep their place. Mutable."""

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
