"""The faults of a history as spans, and its stalls: when a fault stopped or slowed the operator's process or clock.

What should have happened during a stall may come late.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from harness.history.event import FaultEvent


class FaultEvents(NamedTuple):
    """One fault: the events at which it began and ended."""

    begin: FaultEvent
    end: FaultEvent | None
    """None: it never ended."""


def fault_spans(faults: Iterable[FaultEvent]) -> list[FaultEvents]:
    """All faults, in the order in which they begin. The `end` of a name ends its oldest fault that still runs."""
    running: dict[str, deque[FaultEvent]] = {}
    ended: dict[int, FaultEvent] = {}
    begun: list[FaultEvent] = []
    for fault in faults:
        oldest = running.setdefault(fault.f, deque())
        if fault.phase == "begin":
            oldest.append(fault)
            begun.append(fault)
        elif oldest:
            ended[oldest.popleft().n] = fault
    return [FaultEvents(fault, ended.get(fault.n)) for fault in begun]


class Stalls:
    """The times at which some fault held the operator up, as disjoint spans in rising order.

    Answers to `stalls` of a `fault` in `docs/reference/history.md`. A fault that never ends lasts for ever; spans
    that touch in one microsecond overlap. With `every`, each fault counts, whether it stalls or not. Grows with
    faults.
    """

    def __init__(self, faults: Iterable[FaultEvent], *, every: bool = False) -> None:
        self._begins: list[int] = []
        self._ends: list[float] = []
        for span in fault_spans(faults):
            if not every and span.begin.stalls is not True:
                continue
            begin, end = span.begin.t, math.inf if span.end is None else span.end.t
            if self._ends and begin <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._begins.append(begin)
                self._ends.append(end)

    def overlap(self, since: int, until: float) -> bool:
        """Whether the operator was held up at any time from `since` to `until`, in microseconds."""
        index = bisect_right(self._begins, until)
        return index > 0 and self._ends[index - 1] >= since
