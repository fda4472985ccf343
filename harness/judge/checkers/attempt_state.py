"""The state of one attempt, updated event by event: open elements, emitted elements, slots, readiness.

Implements "Resolved", "Which watermark" and "ready" (V6) of `docs/reference/history.md`; answers to Flink's element
queues. `AttemptSweep` keeps an element open until all of its outputs have left or its outcome calls for none.
`misordered` and `equal_replays` compare replay order: in ordered mode by position; in unordered mode only
watermarks must keep their place. Every class is mutable, covers one attempt, and can be queried between any
two events. Memory grows with the records and watermarks of the attempt's input.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any

from harness.history.event import Dead, Event, Id, In, OfAttempt, Out, Owm, Res, Restore, W, Wm
from harness.judge.checkers.history_trace import AttemptTrace, Settled
from harness.judge.checkers.inputs import AttemptInput, Element, Mark, RecordOf, SubtaskInput, elements_of
from harness.judge.checkers.outputs import outputs_by


class AttemptProgress:
    """Which records of one attempt have an outcome so far, and which of their outputs have left."""

    def __init__(self, source: SubtaskInput) -> None:
        self._source = source
        self._left: dict[Id, set[int]] = {}
        self._wanted_left: dict[Id, int] = {}
        """Cache of `count_left`: a record may have a million outputs, and each one queries the count."""
        self._outcomes: dict[Id, Settled] = {}
        self._wanted: dict[Id, list[Any] | None] = {}
        """Cache of `wanted`, valid for the outcome so far."""

    def step(self, event: Event) -> Id | None:
        """Apply an event; returns the record whose state it may have changed."""
        match event:
            case Out():
                self._leave(event.id, event.j)
            case Res(final=True) | Dead():
                self._outcomes.setdefault(event.id, event)
                self._wanted.pop(event.id, None)
                self._wanted_left.pop(event.id, None)
            case _:
                return None
        return event.id

    def _leave(self, record: Id, j: int) -> None:
        left = self._left.setdefault(record, set())
        if j not in left and record in self._wanted_left:
            self._wanted_left[record] += self._is_wanted(record, j)
        left.add(j)

    def _is_wanted(self, record: Id, j: int) -> bool:
        wanted = self.wanted(record)
        return wanted is None or j < len(wanted)

    def has_left(self, record: Id) -> bool:
        return record in self._left

    def wanted(self, record: Id) -> list[object] | None:
        """The outputs that its outcome in this attempt calls for; without an outcome, its `expect`; None: unknown."""
        if record not in self._wanted:
            self._wanted[record] = outputs_by(self._outcomes.get(record), self._source.expect(record))
        return self._wanted[record]

    def count_left(self, record: Id) -> int:
        """How many of its wanted outputs have left; if those are unknown, how many outputs have left."""
        if record not in self._wanted_left:
            self._wanted_left[record] = sum(self._is_wanted(record, j) for j in self._left.get(record, ()))
        return self._wanted_left[record]

    def all_left(self, record: Id) -> bool:
        """Whether it has at least one output and all have left; if they are unknown, one that left suffices."""
        count = self.count_left(record)
        return count > 0 and ((wanted := self.wanted(record)) is None or count == len(wanted))

    def resolved(self, record: Id) -> bool:
        """Whether it needs no further output: see "Resolved" in `docs/reference/history.md`."""
        wanted = self.wanted(record)
        if record in self._outcomes:
            return not wanted or self.count_left(record) == len(wanted)
        return bool(wanted) and self.all_left(record)


class MarksLeft:
    """Which watermarks of one attempt's input have left so far; takes each `owm` in order.

    A surplus `owm` changes nothing. With coalescing, a watermark that leaves covers all watermarks up to the
    last position that has its value. Memory grows with the watermarks that left.
    """

    def __init__(self, taken: AttemptInput, *, coalesces: bool) -> None:
        self._taken = taken
        self._coalesces = coalesces
        self._left: set[Mark] = set()
        self.reach: float = -math.inf
        """With coalescing: watermarks up to this position may count as left."""

    def step(self, owm: Owm) -> Mark | None:
        """Apply the next `owm`; returns the input watermark that it stands for, None if it is surplus."""
        pos = self._taken.left.get(owm.n)
        if pos is None:
            return None
        mark = Mark(pos, owm.w)
        self._left.add(mark)
        if self._coalesces:
            self.reach = max(self.reach, self._taken.positions_of[owm.w][-1])
        return mark

    def __contains__(self, mark: Mark) -> bool:
        return mark in self._left or mark.pos <= self.reach


class WatermarkSlots:
    """The capacity slots that watermarks of one attempt hold now; `len` is their number.

    A watermark holds a slot from the first call of a record behind it until it leaves. With coalescing,
    watermarks with no record between them share one slot. O(log n) per event.
    """

    def __init__(self, taken: AttemptInput, *, coalesces: bool) -> None:
        self._coalesces = coalesces
        self._left = MarksLeft(taken, coalesces=coalesces)
        self._records = sorted(pos for pos in taken.records.values() if pos is not None)
        self._called_up_to = -math.inf
        self._order = count()
        """Breaks ties in the heaps: a file may give one position two values, which may not be comparable."""
        self._waiting: list[tuple[int, int, Mark]] = []
        """A heap of watermarks that do not hold a slot yet."""
        self._held: set[Mark] = set()
        self._held_by_pos: list[tuple[int, int, Mark]] = []
        self._sharing: Counter[int] = Counter()
        """How many watermarks share a slot; the key is the number of records before them."""

    def __len__(self) -> int:
        return len(self._sharing) if self._coalesces else len(self._held)

    def take(self, mark: Mark) -> None:
        """Add a watermark that was taken in or restored."""
        if mark not in self._held:
            heappush(self._waiting, (mark.pos, next(self._order), mark))
            self._admit()

    def call(self, pos: int) -> None:
        """The record at `pos` is called, so every element before it has been admitted to the queue."""
        self._called_up_to = max(self._called_up_to, pos)
        self._admit()

    def emit(self, owm: Owm) -> None:
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
            self._sharing[bisect_left(self._records, mark.pos)] += 1
            heappush(self._held_by_pos, (mark.pos, next(self._order), mark))

    def _release(self, mark: Mark) -> None:
        if mark not in self._held:
            return
        self._held.remove(mark)
        if self._coalesces:
            slot = bisect_left(self._records, mark.pos)
            self._sharing[slot] -= 1
            if not self._sharing[slot]:
                del self._sharing[slot]


class Readiness:
    """Since when each watermark of an attempt is ready to leave; step through the events, query at an `owm`.

    A watermark is ready once it has arrived (`wm`, `restore`) and all records of the attempt's input with a
    lower position are resolved; other watermarks do not delay it. O(log n) per event.
    """

    def __init__(self, *, source: SubtaskInput, taken: AttemptInput, coalesces: bool) -> None:
        self._input = taken
        self._coalesces = coalesces
        self._progress = AttemptProgress(source)
        self._came: dict[Mark, OfAttempt] = {}
        self._places: dict[W, list[int]] = {}
        """For each value the positions of its watermarks that have arrived, in rising order."""
        known = enumerate(taken.records.items())
        self._entries = {record: (pos, order, record) for order, (record, pos) in known if pos is not None}
        self._open = list(self._entries.values())
        """A heap; a resolved record is removed when it reaches the top."""
        heapify(self._open)
        self._resolved: set[Id] = set()
        self._settled_at: list[int] = []
        self._settled_by: list[OfAttempt] = []
        """Resolving events, with their positions in `_settled_at`, that no later resolution of a lower or equal
        position replaces; both lists rise."""

    def step(self, event: OfAttempt) -> None:
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
        """The event that made this watermark ready; empty if it is not ready or is surplus.

        With coalescing the `owm` may also stand for the last ready position of its value; if that is another
        position, the event that made it ready follows.
        """
        pos = self._input.left.get(owm.n)
        while self._open and self._open[0][2] in self._resolved:
            heappop(self._open)
        frontier = self._open[0][0] if self._open else math.inf
        if pos is None or frontier < pos or Mark(pos, owm.w) not in self._came:
            return []
        places = self._places[owm.w]
        latest = places[bisect_right(places, frontier) - 1] if self._coalesces else pos
        return [self._settled(place, owm.w) for place in ([pos, latest] if latest > pos else [pos])]

    def _settled(self, pos: int, w: W) -> OfAttempt:
        """What made an arrived, unblocked watermark ready: its arrival or the last resolution before it."""
        came = self._came[Mark(pos, w)]
        index = bisect_left(self._settled_at, pos)
        settled = self._settled_by[index - 1] if index else came
        return max(came, settled, key=lambda event: event.n)

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


class AttemptSweep:
    """Elements of one attempt that are open or have left, after each event."""

    def __init__(
        self, attempt: AttemptTrace, *, source: SubtaskInput, taken: AttemptInput, coalesces: bool
    ) -> None:
        self._input = taken
        self._progress = AttemptProgress(source)
        self._coalesces = coalesces
        self._taken: set[Element] = set()
        self.open: dict[Element, None] = {}
        """Elements taken in and not resolved, in the order in which they became open."""
        self._left: set[Element] = set()
        self._left_at: dict[int, list[Element]] = {}
        self._left_positions: list[int] = []
        self._covered = 0
        """With coalescing: how many watermarks of the input, in order of position, have left or are covered."""
        self._reach = -math.inf
        """With coalescing: watermarks up to this position may count as left."""
        self.next_pos = attempt.start.pos if attempt.start else 0

    def step(self, event: OfAttempt) -> None:
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
        """Its input position; None for a record that the subtask never took in."""
        return self._input.position(element)

    def has_taken(self, element: Element) -> bool:
        """Whether the attempt has taken it in or restored it so far."""
        return element in self._taken

    def has_left(self, element: Element) -> bool:
        """Whether the watermark, or any output of the record, has left."""
        return element in self._left

    def all_left(self, element: Element) -> bool:
        """Whether the watermark has left, or the record has at least one output and all have left."""
        if isinstance(element, Mark):
            return element in self._left
        return self._progress.all_left(element.id)

    def split(self, element: Element) -> bool:
        """Whether some of a record's outputs have left, but not all."""
        return (
            not isinstance(element, Mark)
            and self._progress.count_left(element.id) > 0
            and not self._progress.all_left(element.id)
        )

    def excused(self, element: Element) -> bool:
        """With coalescing: whether an `owm` that left may have stood for this watermark or a later one."""
        return isinstance(element, Mark) and element.pos <= self._reach

    def left_from(self, pos: int) -> Iterator[Element]:
        """The elements of the attempt's input at or after `pos` that have left, wholly or in part."""
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
        """Mark a record as open or closed by its current state."""
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


def misordered(places: Mapping[Element, int | None], *, ordered: bool) -> Iterator[Element]:
    """The elements, given in stored order, that stand on the wrong side of another element."""
    known = [(element, pos) for element, pos in places.items() if pos is not None]
    lowest_mark_after = _lowest_marks_after(known)
    highest = -math.inf
    for (element, pos), lowest in zip(known, lowest_mark_after, strict=True):
        overtakes = not ordered and not isinstance(element, Mark) and lowest < pos
        if pos < highest or overtakes:
            yield element
        if ordered or isinstance(element, Mark):
            highest = max(highest, pos)


def _lowest_marks_after(known: Sequence[tuple[Element, int]]) -> list[float]:
    lowest = math.inf
    found: list[float] = []
    for element, pos in reversed(known):
        found.append(lowest)
        if isinstance(element, Mark):
            lowest = min(lowest, pos)
    return found[::-1]


def equal_replays(left: Sequence[Element], right: Sequence[Element], *, ordered: bool) -> bool:
    """Whether two stored lists replay alike; in unordered mode records between two watermarks may swap."""
    if ordered:
        return list(left) == list(right)
    return _segments(left) == _segments(right)


def _segments(elements: Sequence[Element]) -> list[Mark | dict[Element, int]]:
    segments: list[Mark | dict[Element, int]] = [{}]
    for element in elements:
        if isinstance(element, Mark):
            segments += (element, {})
        elif isinstance(counts := segments[-1], dict):
            counts[element] = counts.get(element, 0) + 1
    return segments
