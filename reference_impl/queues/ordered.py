"""The ordered queue: first in, first out, for records and watermarks alike.

Answers to Flink's `OrderedStreamElementQueue`. Invariant: only the head is ever emitted, so the order of
output is the order of arrival, whatever the order of completion (A15, A16).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from reference_impl.elements import QueueElement
from reference_impl.queues.protocol import Emit, Entry, checked_capacity

__all__ = ["OrderedQueue"]


class OrderedQueue:
    """A queue whose slow head holds back all behind it (A17). Mutable."""

    def __init__(self, capacity: int) -> None:
        self._capacity = checked_capacity(capacity)
        self._entries: deque[Entry] = deque()

    def try_put(self, element: QueueElement) -> Entry | None:
        """Behind all others, if there is room."""
        if len(self._entries) >= self._capacity:
            return None
        entry = Entry(element)
        self._entries.append(entry)
        return entry

    @property
    def has_completed(self) -> bool:
        """Whether the head is done."""
        return bool(self._entries) and self._entries[0].results is not None

    def emit_completed(self, emit: Emit) -> None:
        """The head, if it is done."""
        if self.has_completed:
            self._entries.popleft().emit(emit)

    def entries(self) -> Iterator[Entry]:
        """In order of arrival."""
        return iter(self._entries)

    def __iter__(self) -> Iterator[QueueElement]:
        return (entry.element for entry in self._entries)

    def __len__(self) -> int:
        return len(self._entries)
