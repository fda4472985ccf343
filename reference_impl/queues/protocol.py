"""The contract of the operator's queues, and the entry that an element has in one.

Answers to Flink's `StreamElementQueue` and `StreamElementQueueEntry`. Invariant: an element that was put
keeps its slot, and is listed by iteration, until its results have been handed to `emit` (A11, A12).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from reference_impl.elements import QueueElement, Record, Watermark
from reference_impl.errors import WrongState

__all__ = ["ElementQueue", "Emit", "Entry", "checked_capacity"]

Emit = Callable[[QueueElement], None]


class ElementQueue(Protocol):
    """At most `capacity` elements, watermarks included (A8); iterates over the elements put in (A12)."""

    @property
    def has_completed(self) -> bool:
        """Whether `emit_completed` would emit (A10)."""

    def try_put(self, element: QueueElement) -> Entry | None:
        """The element's entry, or None and no change if the queue is full (A7)."""

    def emit_completed(self, emit: Emit) -> None:
        """Emit the results of one entry, or nothing if none may leave (A10)."""

    def entries(self) -> Iterator[Entry]:
        """All entries, in the order in which a restore must replay them."""

    def __iter__(self) -> Iterator[QueueElement]: ...

    def __len__(self) -> int: ...


class Entry:
    """An element's place in a queue. Mutable: gets its results once; a watermark is born with none (A13)."""

    __slots__ = ("_on_done", "element", "results")

    def __init__(self, element: QueueElement, *, on_done: Callable[[Entry], None] | None = None) -> None:
        self.element = element
        self.results: Sequence[Any] | None = None
        self._on_done = on_done
        if not isinstance(element, Record):
            if not isinstance(element, Watermark):
                raise TypeError(f"Cannot enqueue {element!r}; a queue holds records and watermarks")
            self.results = ()

    @property
    def done(self) -> bool:
        """Whether the results are there."""
        return self.results is not None

    def complete(self, results: Sequence[Any]) -> None:
        """Set the results; again before emission, replace them (A24)."""
        if isinstance(self.element, Watermark):
            raise WrongState(f"{self.element} needs no results; only a record's entry is completed")
        is_first = self.results is None
        self.results = results
        if is_first and self._on_done is not None:
            self._on_done(self)

    def emit(self, emit: Emit) -> None:
        """A watermark as it came; a record's results in order, with its timestamp (A39, A40)."""
        element = self.element
        if isinstance(element, Watermark):
            emit(element)
            return
        assert self.results is not None, f"{element} is emitted before it is complete"
        for value in self.results:
            emit(Record(value=value, timestamp=element.timestamp))


def checked_capacity(capacity: int) -> int:
    """`capacity`, if a queue can have it (A2)."""
    if capacity <= 0:
        raise ValueError(f"a queue's capacity is {capacity}; give 1 or more")
    return capacity
