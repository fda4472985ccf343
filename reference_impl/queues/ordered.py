"""The ordered queue: first in, first out, for records and watermarks alike.

Answers to Flink's `OrderedStreamElementQueue`. Invariant: only the head is ever emitted, so the order of
output is the order of arrival, whatever the order of completion (A15, A16).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from reference_impl.elements import QueueElement, Record
from reference_impl.queues.availability import AVAILABLE, Availability
from reference_impl.queues.protocol import Emit, Entry, checked_capacity

__all__ = ["OrderedQueue"]


class OrderedQueue:
    """A queue whose slow head holds back all behind it (A17). Mutable."""

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
