"""Watermark slots: how many slots of an operator's capacity are taken up by watermarks right now.

Answers to Flink's element queues, where a watermark is an entry like any other. Mutable: whoever walks an
attempt's events tells it what is taken in, called and left. Invariant: a watermark holds a slot from the first
call of a later element until it leaves; with coalescing, those with no record between them hold one together.
O(log n) each; grows with the watermarks of the attempt's input.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from heapq import heappop, heappush
from itertools import count

from harness.checkers.attempt_input import AttemptInput, Mark
from harness.checkers.marks_left import MarksLeft
from harness.history.event import Owm

__all__ = ["WatermarkSlots"]


class WatermarkSlots:
    """Of one attempt; its length is the number of slots held."""

    def __init__(self, taken: AttemptInput, *, coalesces: bool) -> None:
        self._coalesces = coalesces
        self._left = MarksLeft(taken, coalesces=coalesces)
        self._records = sorted(pos for pos in taken.records.values() if pos is not None)
        self._called_up_to = -math.inf
        self._order = count()
        """Settles ties: of one position a file may tell two values, which need not compare."""
        self._waiting: list[tuple[int, int, Mark]] = []
        """A heap: what may itself still be waiting for a slot."""
        self._held: set[Mark] = set()
        self._held_by_pos: list[tuple[int, int, Mark]] = []
        self._sharing: Counter[int] = Counter()
        """How many share a slot, by the number of records before them."""

    def __len__(self) -> int:
        return len(self._sharing) if self._coalesces else len(self._held)

    def take(self, mark: Mark) -> None:
        """It is in the attempt's input now."""
        if mark not in self._held:
            heappush(self._waiting, (mark.pos, next(self._order), mark))
            self._admit()

    def call(self, pos: int) -> None:
        """The record at `pos` is called: whatever precedes it has been admitted."""
        self._called_up_to = max(self._called_up_to, pos)
        self._admit()

    def emit(self, owm: Owm) -> None:
        """A watermark leaves."""
        mark = self._left.step(owm)
        if mark is None:
            return
        self._release(mark)
        if self._coalesces:
            while self._held_by_pos and self._held_by_pos[0][0] <= self._left.reach:
                self._release(heappop(self._held_by_pos)[-1])

    def _admit(self) -> None:
        while self._waiting and self._waiting[0][0] < self._called_up_to:
            mark = heappop(self._waiting)[-1]
            if mark not in self._left and mark not in self._held:
                self._hold(mark)

    def _hold(self, mark: Mark) -> None:
        self._held.add(mark)
        if self._coalesces:
            self._sharing[self._slot(mark)] += 1
            heappush(self._held_by_pos, (mark.pos, next(self._order), mark))

    def _release(self, mark: Mark) -> None:
        if mark not in self._held:
            return
        self._held.remove(mark)
        if self._coalesces:
            slot = self._slot(mark)
            self._sharing[slot] -= 1
            if not self._sharing[slot]:
                del self._sharing[slot]

    def _slot(self, mark: Mark) -> int:
        return bisect_left(self._records, mark.pos)
