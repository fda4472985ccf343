"""An attempt walked event by event: what it has taken in by now, what of that is open, what has left.

The state between two snaps of one attempt. Mutable. Invariant: an element is `open` exactly while nothing
says that all of it has left or that nothing will; memory grows with the attempt's input.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterator

from harness.checkers.attempt_input import AttemptInput, Element, Mark, RecordOf, elements_of
from harness.checkers.history_trace import Attempt
from harness.checkers.progress import Progress
from harness.checkers.subtask_input import SubtaskInput
from harness.history.event import In, OfAttempt, Owm, Restore, Wm

__all__ = ["AttemptSweep"]


class AttemptSweep:
    """Feed it the attempt's events in order; ask in between."""

    def __init__(
        self, attempt: Attempt, *, source: SubtaskInput, taken: AttemptInput, coalesces: bool
    ) -> None:
        self._input = taken
        self._progress = Progress(source)
        self._coalesces = coalesces
        self._taken: set[Element] = set()
        self.open: dict[Element, None] = {}
        """Taken in, and not resolved; in the order in which that came about."""
        self._left: set[Element] = set()
        self._left_at: dict[int, list[Element]] = {}
        self._left_positions: list[int] = []
        self._covered = 0
        """With coalescing: how many marks of the input, in order of position, have left or are covered."""
        self._reach = -math.inf
        """With coalescing: up to which position marks may count as left."""
        self.next_pos = attempt.start.pos if attempt.start else 0

    def step(self, event: OfAttempt) -> None:
        """Take the next event."""
        match event:
            case Restore():
                for element in elements_of(event.elements):
                    self._take(element)
            case In():
                self.next_pos = event.pos + 1
                self._take(RecordOf(event.id))
            case Wm():
                self.next_pos = event.pos + 1
                self._take(Mark(event.pos, event.w))
            case Owm():
                self._emit_mark(event)
            case _:
                if (record := self._progress.step(event)) is not None:
                    self._touch(RecordOf(record))

    def position(self, element: Element) -> int | None:
        """Where it stands; None for a record that the subtask never took in."""
        return self._input.position(element)

    def has_taken(self, element: Element) -> bool:
        """Whether it is in the attempt's input by now."""
        return element in self._taken

    def has_left(self, element: Element) -> bool:
        """Whether it, or any output of it, has left."""
        return element in self._left

    def all_left(self, element: Element) -> bool:
        """Whether it, or all of at least one output of it, has left."""
        if isinstance(element, Mark):
            return element in self._left
        return self._progress.all_left(element.id)

    def split(self, element: Element) -> bool:
        """Whether some of its several outputs have left, but not all."""
        return (
            not isinstance(element, Mark)
            and self._progress.count_left(element.id) > 0
            and not self._progress.all_left(element.id)
        )

    def excused(self, element: Element) -> bool:
        """With coalescing: a later position of a value that has left may count as left, with all before it."""
        return isinstance(element, Mark) and element.pos <= self._reach

    def left_from(self, pos: int) -> Iterator[Element]:
        """What of the attempt's input at or after `pos` has left, wholly or in part."""
        for position in self._left_positions[bisect_left(self._left_positions, pos) :]:
            yield from self._left_at[position]

    def _take(self, element: Element) -> None:
        self._taken.add(element)
        if isinstance(element, Mark):
            if element not in self._left:
                self.open[element] = None
        else:
            self._settle(element)

    def _touch(self, element: RecordOf) -> None:
        if element.id in self._input.records and self._progress.has_left(element.id):
            self._leave(element)
        if element in self._taken:
            self._settle(element)

    def _settle(self, element: RecordOf) -> None:
        """Close or open a record, as it now stands."""
        if self._progress.resolved(element.id) or self._progress.all_left(element.id):
            self.open.pop(element, None)
        else:
            self.open[element] = None

    def _emit_mark(self, owm: Owm) -> None:
        pos = self._input.left.get(owm.n)
        if pos is None:
            return
        if not self._coalesces:
            self._leave(Mark(pos, owm.w))
            return
        self._reach = max(self._reach, self._input.positions_of[owm.w][-1])
        marks = self._input.marks
        while self._covered < len(marks) and marks[self._covered].pos <= pos:
            self._leave(marks[self._covered])
            self._covered += 1

    def _leave(self, element: Element) -> None:
        if isinstance(element, Mark):
            self.open.pop(element, None)
        pos = self.position(element)
        if pos is None or element in self._left:
            return
        self._left.add(element)
        if pos not in self._left_at:
            insort(self._left_positions, pos)
        self._left_at.setdefault(pos, []).append(element)
