"""Timers by their instant, each of them once.

Answers to Flink's `HeapPriorityQueueSet`. Invariant: a set (T10) whose first element is the earliest timer; timers of
one instant come in the order in which they were added, where Flink promises none. Keys are told apart as in keyed
state: by value and type, so that 1 and True have timers of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import count

from reference_impl.internal_timers.internal_timer import InternalTimer
from reference_impl.state.key_identity import Identity, identity_of

__all__ = ["TimerHeap"]

_SMALL = 64
"""A heap of so many entries is not searched for removed ones."""
_TimerIdentity = tuple[int, Identity, Identity | None]
_Entry = tuple[int, int, InternalTimer, _TimerIdentity]
"""Instant and number, by which entries are sorted; the timer, and what tells it from others."""


class TimerHeap:
    """Mutable. A removed timer stays in the heap until it is the first, or until the removed are the most."""

    def __init__(self) -> None:
        self._timers: dict[_TimerIdentity, InternalTimer] = {}
        """By what tells them apart; an entry of the heap whose timer is not here is a leftover."""
        self._heap: list[_Entry] = []
        self._number = count().__next__

    def __len__(self) -> int:
        """The timers, counted."""
        return len(self._timers)

    def __iter__(self) -> Iterator[InternalTimer]:
        """The timers, in the order in which they were added."""
        return iter(self._timers.values())

    def add(self, timer: InternalTimer) -> bool:
        """Whether it is new."""
        identity = _identity_of(timer)
        if identity in self._timers:
            return False
        self._timers[identity] = timer
        heappush(self._heap, (timer.timestamp, self._number(), timer, identity))
        return True

    def remove(self, timer: InternalTimer) -> bool:
        """Whether it was there."""
        if self._timers.pop(_identity_of(timer), None) is None:
            return False
        if len(self._heap) > 2 * len(self._timers) + _SMALL:
            self._purge()
        return True

    def peek(self) -> InternalTimer | None:
        """The earliest; None without any."""
        heap, timers = self._heap, self._timers
        while heap and timers.get(heap[0][3]) is not heap[0][2]:
            heappop(heap)
        return heap[0][2] if heap else None

    def pop_until(self, instant_ms: int) -> InternalTimer | None:
        """Take out the earliest, if it is due at `instant_ms`."""
        timer = self.peek()
        if timer is None or timer.timestamp > instant_ms:
            return None
        del self._timers[heappop(self._heap)[3]]
        return timer

    def _purge(self) -> None:
        """Drop the leftovers, and do not look again before there are as many anew: O(1) a timer."""
        timers = self._timers
        self._heap = [entry for entry in self._heap if timers.get(entry[3]) is entry[2]]
        heapify(self._heap)


def _identity_of(timer: InternalTimer) -> _TimerIdentity:
    namespace = timer.namespace
    return timer.timestamp, identity_of(timer.key), None if namespace is None else identity_of(namespace)
