"""Readiness: since when a watermark of an attempt has had nothing before it that could hold it back.

Answers to "ready" in V6 of `docs/history.md`. Mutable: whoever walks an attempt's events feeds them in order
and asks in between. Invariant: ready is a watermark that has come (`wm`, `restore`), once all records of the
attempt's input with a lower position are resolved; other watermarks hold nothing back. O(log n) an event;
memory grows with the attempt's input.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from heapq import heapify, heappop, heappush

from harness.checkers.attempt_input import AttemptInput, Mark, elements_of
from harness.checkers.progress import Progress
from harness.checkers.subtask_input import SubtaskInput
from harness.history.event import Id, OfAttempt, Owm, Restore, W, Wm

__all__ = ["Readiness"]


class Readiness:
    """Feed it the attempt's events in order; ask at an `owm`."""

    def __init__(self, *, source: SubtaskInput, taken: AttemptInput, coalesces: bool) -> None:
        self._input = taken
        self._coalesces = coalesces
        self._progress = Progress(source)
        self._came: dict[Mark, OfAttempt] = {}
        self._places: dict[W, list[int]] = {}
        """Of each value the positions that have come, in rising order."""
        known = enumerate(taken.records.items())
        self._entries = {record: (pos, order, record) for order, (record, pos) in known if pos is not None}
        self._open = list(self._entries.values())
        """A heap; what is resolved leaves it only when it comes to the top."""
        heapify(self._open)
        self._resolved: set[Id] = set()
        self._settled_at: list[int] = []
        self._settled_by: list[OfAttempt] = []
        """The resolutions that no later one of a lower position outdoes, and their positions; both rise."""

    def step(self, event: OfAttempt) -> None:
        """Take the next event."""
        match event:
            case Restore():
                for element in elements_of(event.elements):
                    if isinstance(element, Mark):
                        self._come(element, event)
            case Wm():
                self._come(Mark(event.pos, event.w), event)
            case _:
                record = self._progress.step(event)
                if record is not None and record in self._entries:
                    self._touch(record, event)

    def since(self, owm: Owm) -> list[OfAttempt]:
        """The event that made this watermark ready; none if it is not, or stands for nothing.

        With coalescing it may also be the last position of its value that is ready: then that one's event follows.
        """
        pos = self._input.left.get(owm.n)
        frontier = self._lowest_open()
        if pos is None or frontier < pos or Mark(pos, owm.w) not in self._came:
            return []
        latest = self._latest_ready(owm.w, frontier, otherwise=pos) if self._coalesces else pos
        return [self._settled(place, owm.w) for place in ([pos, latest] if latest > pos else [pos])]

    def _settled(self, pos: int, w: W) -> OfAttempt:
        """What made ready a watermark that has come, with nothing open before it."""
        came = self._came[Mark(pos, w)]
        index = bisect_left(self._settled_at, pos)
        settled = self._settled_by[index - 1] if index else came
        return max(came, settled, key=lambda event: event.n)

    def _latest_ready(self, w: W, frontier: float, *, otherwise: int) -> int:
        places = self._places.get(w, [])
        index = bisect_right(places, frontier)
        return places[index - 1] if index else otherwise

    def _lowest_open(self) -> float:
        while self._open and self._open[0][2] in self._resolved:
            heappop(self._open)
        return self._open[0][0] if self._open else math.inf

    def _come(self, mark: Mark, event: OfAttempt) -> None:
        if mark not in self._came:
            self._came[mark] = event
            insort(self._places.setdefault(mark.w, []), mark.pos)

    def _touch(self, record: Id, event: OfAttempt) -> None:
        """Note that a record became resolved, or that its outcome reopened it."""
        resolved = self._progress.resolved(record)
        if resolved == (record in self._resolved):
            return
        if not resolved:
            self._resolved.remove(record)
            heappush(self._open, self._entries[record])
            return
        self._resolved.add(record)
        pos = self._entries[record][0]
        while self._settled_at and self._settled_at[-1] >= pos:
            self._settled_at.pop()
            self._settled_by.pop()
        self._settled_at.append(pos)
        self._settled_by.append(event)
