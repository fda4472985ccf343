"""Stalls of a history: the times at which a fault stopped or slowed the operator's process or clock.

What should have happened meanwhile may come late.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable

from harness.history.event import FaultEvent

__all__ = ["Stalls"]


class Stalls:
    """The times at which some fault held the operator up, as disjoint spans in rising order.

    Answers to `stalls` of a `fault` in `docs/reference/history.md`. The `end` of a name ends its oldest fault that
    still runs; one that never ends lasts for ever; spans that touch in one microsecond overlap. Grows with
    faults.
    """

    def __init__(self, faults: Iterable[FaultEvent]) -> None:
        self._begins: list[int] = []
        self._ends: list[float] = []
        for begin, end in _spans(faults):
            if self._ends and begin <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._begins.append(begin)
                self._ends.append(end)

    def overlap(self, since: int, until: int) -> bool:
        """Whether the operator was held up at any time from `since` to `until`, in microseconds."""
        index = bisect_right(self._begins, until)
        return index > 0 and self._ends[index - 1] >= since


def _spans(faults: Iterable[FaultEvent]) -> list[tuple[int, float]]:
    """Begin and end of each stall, in the order in which they begin."""
    running: dict[str, deque[FaultEvent]] = {}
    ended: dict[int, int] = {}
    begun: list[FaultEvent] = []
    for fault in faults:
        oldest = running.setdefault(fault.f, deque())
        if fault.phase == "begin":
            oldest.append(fault)
            begun.append(fault)
        elif oldest:
            ended[oldest.popleft().n] = fault.t
    return [(fault.t, ended.get(fault.n, math.inf)) for fault in begun if fault.stalls is True]
