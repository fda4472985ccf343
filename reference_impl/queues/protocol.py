"""The contract of the operator's queues, and the entry that an element has in one.

Answers to Flink's `StreamElementQueue` and `StreamElementQueueEntry`. Invariant: an element that was put
keeps its slot, and is listed by iteration, until its results are handed to `emit` (A11, A12).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from reference_impl.elements import QueueElement, Record, Watermark, WatermarkStatus
from reference_impl.errors import WrongState
from reference_impl.queues.availability import Availability

__all__ = ["ElementQueue", "Emit", "Entry", "checked_capacity"]

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

    What calls the function for a record is built on it (`reference_impl.result`), so that each record needs one
    object for its place, its handle and its outcome.
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
