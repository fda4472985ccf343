"""The input of a subtask and of an attempt, and the input watermark that each `owm` stands for.

Implements "Input of an attempt" and "Which watermark" of `docs/reference/history.md`. The source is deterministic, so
the first `in` or `wm` at a position defines the element there. The input of an attempt is what it restored and what
it took in, ordered by position. The k-th `owm` of a value stands for the k-th position with that value; further ones
are surplus, which only V7 judges. Memory grows with positions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import UNSET, UnsetType

from harness.history.event import Emission, Id, In, Out, Owm, W, Wm
from harness.history.values import shown
from harness.judge.checkers.history_trace import AttemptTrace, SubtaskTrace
from harness.system.json_types import JsonView

_ELEMENTS_NAMED = 8


def positions_of_emissions(
    emissions: Iterable[Emission], positions_of: Mapping[W, Sequence[int]]
) -> list[int | None]:
    """For each emission the input position of its watermark; None for an `out` or a surplus watermark."""
    left: Counter[W] = Counter()
    found: list[int | None] = []
    for emission in emissions:
        if isinstance(emission, Out):
            found.append(None)
            continue
        positions = positions_of.get(emission.w, ())
        k = left[emission.w]
        left[emission.w] += 1
        found.append(positions[k] if k < len(positions) else None)
    return found


class Taken(NamedTuple):
    """A record as the source first delivered it."""

    pos: int
    n: int
    """Number of the first `in` event of the record."""
    ts: int | None
    expect: list[Any] | UnsetType
    key: Any | UnsetType
    """Absent means no key; null is a key."""


class SubtaskInput:
    """The source of one subtask, over all attempts: records by id, watermarks by position.

    What the subtask inherits at a rescale comes first.
    """

    def __init__(self, subtask: SubtaskTrace, *, inherited: Iterable[Inherited] = ()) -> None:
        self.records: dict[Id, Taken] = {}
        self.watermarks: dict[int, Wm] = {}
        self.inherited: set[Id] = set()
        """The records that it inherits."""
        for pos, element, taken, n in inherited:
            if isinstance(element, Mark):
                self.watermarks.setdefault(pos, Wm(n=n, t=0, s=subtask.s, a=1, pos=pos, w=element.w))
            elif taken is not None and element.id not in self.records:
                self.records[element.id] = taken._replace(pos=pos)
                self.inherited.add(element.id)
        for attempt in subtask.attempts.values():
            for event in attempt.events:
                if type(event) is In:
                    self._take(event)
                elif type(event) is Wm:
                    self.watermarks.setdefault(event.pos, event)
        self.marks: list[int] = sorted(self.watermarks)
        self.positions_of: dict[W, list[int]] = {}
        """The positions of each watermark value, in rising order."""
        for pos in self.marks:
            self.positions_of.setdefault(self.watermarks[pos].w, []).append(pos)

    def position(self, record: Id) -> int | None:
        """The position of a record; None if this subtask never took it in."""
        taken = self.records.get(record)
        return None if taken is None else taken.pos

    def expect(self, record: Id) -> list[object] | UnsetType:
        """The `expect` of its `in` events; absent if none has one."""
        taken = self.records.get(record)
        return UNSET if taken is None else taken.expect

    def mark_before(self, pos: int) -> int | None:
        """The position of the last watermark that precedes `pos`."""
        index = bisect_left(self.marks, pos)
        return self.marks[index - 1] if index else None

    def _take(self, event: In) -> None:
        known = self.records.get(event.id)
        if known is None:
            ts = None if event.ts is UNSET else event.ts
            self.records[event.id] = Taken(event.pos, event.n, ts, event.expect, event.key)
        elif known.expect is UNSET and event.expect is not UNSET:
            self.records[event.id] = known._replace(expect=event.expect)


class Mark(NamedTuple):
    """A watermark at its position."""

    pos: int
    w: W


class RecordOf(NamedTuple):
    """A record, by its id."""

    id: Id


class Inherited(NamedTuple):
    """An element that a subtask inherits at a rescale."""

    pos: int
    element: Element
    taken: Taken | None
    """The record as the source delivered it before the rescale; None: a watermark, or no subtask took it in."""
    n: int
    """Number of the `rescale` event."""


Element = RecordOf | Mark
"""One entry of a snap's `elements`. A Mark never equals a RecordOf: the tuples differ in length."""


def element_of(given: JsonView) -> Element:
    """One entry of `elements`; fields that `docs/reference/history.md` does not name are ignored."""
    return RecordOf(given["id"]) if "id" in given else Mark(given["pos"], given["w"])


def elements_of(given: Sequence[JsonView]) -> Iterator[Element]:
    """The entries of `elements`, in order."""
    return map(element_of, given)


def element_name(element: Element) -> str:
    return f"watermark {shown(element.w)}" if isinstance(element, Mark) else f"record {shown(element.id)}"


def several(elements: Sequence[Element]) -> str:
    """The first of some elements, in order."""
    named = ", ".join(map(element_name, elements[:_ELEMENTS_NAMED]))
    more = len(elements) - _ELEMENTS_NAMED
    return named + (f" and {more} more" if more > 0 else "") or "nothing"


class AttemptInput:
    """The input of one attempt over its whole life: what it restored, then what it took from its source.

    A restored record that the subtask never took in belongs to the input and has no position.
    `AttemptProgress` tells the state of a record at a given event.
    """

    def __init__(self, attempt: AttemptTrace, source: SubtaskInput) -> None:
        self._source = source
        self.records: dict[Id, int | None] = {}
        marks: dict[Mark, None] = {}
        for element in elements_of(attempt.restore.elements if attempt.restore else ()):
            if isinstance(element, Mark):
                marks[element] = None
            else:
                self.records[element.id] = source.position(element.id)
        for event in attempt.events:
            if isinstance(event, In):
                self.records[event.id] = event.pos
            elif isinstance(event, Wm):
                marks[Mark(event.pos, event.w)] = None
        self.marks: list[Mark] = sorted(marks, key=lambda mark: mark.pos)
        self.positions_of: dict[W, list[int]] = {}
        for mark in self.marks:
            self.positions_of.setdefault(mark.w, []).append(mark.pos)
        stands = zip(
            attempt.emissions,
            positions_of_emissions(attempt.emissions, self.positions_of),
            strict=True,
        )
        self.left: dict[int, int] = {
            emission.n: pos for emission, pos in stands if pos is not None and isinstance(emission, Owm)
        }
        """For each `owm`, by its `n`, the position that it stands for; a surplus `owm` is absent."""

    def position(self, element: Element) -> int | None:
        """The position of an element; None for a record that the subtask never took in."""
        if isinstance(element, Mark):
            return element.pos
        known = self.records.get(element.id)
        return self._source.position(element.id) if known is None else known
