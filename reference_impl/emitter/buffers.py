"""The buffers: what is in flight, and which entry the emitter may take next.

Answers to `OrderedStreamElementQueue` and `UnorderedStreamElementQueue` of Flink 1.2 to 1.9. Invariant: an entry keeps
its slot until its results are out (A11), and no record ever passes a watermark (A20). Whoever reads or changes a
buffer holds the checkpoint lock; there is none in here, where Flink had a second one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Protocol

from reference_impl.elements import OperatorInput, QueueElement, Watermark
from reference_impl.emitter.entry import Entry

__all__ = ["Buffer", "OrderedBuffer", "UnorderedBuffer"]


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
