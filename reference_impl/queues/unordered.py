"""The unordered queue: records leave as they complete, but no record ever passes a watermark.

Answers to Flink's `UnorderedStreamElementQueue`. The queue is a row of segments; a watermark is a segment of
its own, the records between two watermarks are one (A18, A19). Invariant: only the first segment emits, so
each watermark leaves after every record before it and before every record behind it (A20).

Refinement: a segment lists its entries in order of arrival; Flink's lists a hash set (A25).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from reference_impl.elements import QueueElement, Record
from reference_impl.queues.protocol import Emit, Entry, checked_capacity

__all__ = ["UnorderedQueue"]


class UnorderedQueue:
    """A queue in which only watermarks keep their place. Mutable."""

    def __init__(self, capacity: int) -> None:
        self._capacity = checked_capacity(capacity)
        self._segments: deque[_Segment] = deque([_Segment()])
        self._size = 0

    def try_put(self, element: QueueElement) -> Entry | None:
        """Behind all others, if there is room."""
        if self._size >= self._capacity:
            return None
        entry = self._put_record(element) if isinstance(element, Record) else self._put_watermark(element)
        self._size += 1
        return entry

    def _put_record(self, record: Record) -> Entry:
        return self._segments[-1].add(record)

    def _put_watermark(self, watermark: QueueElement) -> Entry:
        """Into the last segment if that is empty, else into its own; behind it a fresh one (A19)."""
        if len(self._segments[-1]):
            self._segments.append(_Segment())
        entry = self._segments[-1].add(watermark)
        self._segments.append(_Segment())
        return entry

    @property
    def has_completed(self) -> bool:
        """Whether the first segment has an entry that is done."""
        return bool(self._segments[0].completed)

    def emit_completed(self, emit: Emit) -> None:
        """The first segment's earliest completed entry, if there is one."""
        first = self._segments[0]
        if not first.completed:
            return
        entry = first.remove_completed()
        self._size -= 1
        if not len(first) and len(self._segments) > 1:  # one always remains, for later records (A22)
            self._segments.popleft()
        entry.emit(emit)

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

    def __len__(self) -> int:
        return len(self.members)

    def add(self, element: QueueElement) -> Entry:
        entry = Entry(element, on_done=self.completed.append)
        self.members[entry] = None
        if entry.done:
            self.completed.append(entry)
        return entry

    def remove_completed(self) -> Entry:
        entry = self.completed.popleft()
        del self.members[entry]
        return entry
