"""A queue that emits only while the next operator can take output.

Answers to the soft back pressure of Flink's operator (FLINK-39835). Invariant: nothing is emitted while
downstream is unavailable, and exactly one emission is scheduled when it becomes available again (A33).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from reference_impl.elements import QueueElement
from reference_impl.mailbox.availability import Availability
from reference_impl.operator.queues import ElementQueue, Emit


class GatedQueue:
    """Wraps `queue`; calls `resume` when `downstream` becomes available after an emission was held back. Mutable."""

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
