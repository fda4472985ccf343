"""What the screen counts: open records between watermarks, distinct values, and sums over the rows of a sink.

A `Segment` answers to that of Flink's `StreamElementQueue`: it counts its open records, so that one
comparison says whether a watermark may leave. `Distinct` and `Sums` may, very rarely, suspect what is in
order, which costs an exact reading. Rows of calls that ended unclearly are known by id; memory grows with
them. `Irregular` ends the screen and says nothing about right or wrong.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Struct

from harness.history.event import Call, Id, In, W

__all__ = ["Distinct", "Entry", "Irregular", "Rows", "Segment", "Sums"]


class Irregular(Exception):
    """The history leaves the life that the screen follows."""


class Segment:
    """The records between two watermarks, and the watermark that ends them. Mutable."""

    __slots__ = ("came_t", "next", "open", "order", "pos", "settled_t", "w")

    def __init__(self, order: int) -> None:
        self.order = order
        self.open = 0
        self.settled_t = 0
        """When the last of its records was resolved."""
        self.w: W | None = None
        """None while no watermark has ended it."""
        self.pos = 0
        self.came_t = 0
        self.next: Segment | None = None

    def close(self, w: W, pos: int, came_t: int) -> Segment:
        """A watermark ends it; returns the segment that follows."""
        self.w, self.pos, self.came_t = w, pos, came_t
        self.next = Segment(self.order + 1)
        return self.next


class Entry(Struct, eq=False, gc=False):
    """A record in one life, from its `in` or `restore` till nothing of it is open. Mutable."""

    source: In
    segment: Segment
    call: Call | None = None
    """The latest."""
    first: Call | None = None
    """The first, once there is a second."""
    returned: int = 0
    """The latest try that came back and was not final."""
    wanted: list[Any] | None = None
    """Its outputs, once it has an outcome."""
    left: int = 0
    """How many of several outputs have left."""
    substitute: bool = False
    """They are a timeout's answer."""
    unclear: bool = False
    """A call of it ended otherwise than `ok`."""


_PENDING_MAX = 1 << 15
_BUCKETS = 64
_DENSE = 8
"""Integers that a range must hold, on the average, to be kept as such."""
_OWN_DIGEST_MAX = 1 << 60
"""Up to here an integer from 0 on is its own digest."""
_PLAIN = frozenset({int, str})


class Distinct:
    """Whether all values of a history differ. Append to `pending`, call `settle` now and then, ask at the end.

    Equal values are never taken for different ones; different ones may, very rarely, be taken for equal.
    Memory: the first thousands of values; then ranges of integers without gaps, and a 64-bit digest of each
    other value.
    """

    def __init__(self) -> None:
        self.pending: list[Any] = []
        self._plain = True
        """All are integers and strings."""
        self._doubled = False
        self._begins: list[int] = []
        self._ends: list[int] = []
        """The ranges of integers, apart from each other and in rising order; an end is the last one inside."""
        self._buckets: list[array[int]] = []

    def __bool__(self) -> bool:
        """Whether any value came."""
        return bool(self.pending or self._begins or self._buckets)

    def settle(self) -> None:
        """Keep no values, if many have come."""
        if len(self.pending) >= _PENDING_MAX:
            self._condense()

    def all_different(self) -> bool:
        """Whether all are integers and strings, and none came twice."""
        if not self._begins and not self._buckets:
            return _PLAIN.issuperset(map(type, self.pending)) and len(set(self.pending)) == len(self.pending)
        self._condense()
        if (
            self._doubled
            or not self._plain
            or any(len(set(bucket)) < len(bucket) for bucket in self._buckets)
        ):
            return False
        return not self._begins or not any(self._is_ranged(d) for bucket in self._buckets for d in bucket)

    def _condense(self) -> None:
        values, self._plain = self.pending, self._plain and _PLAIN.issuperset(map(type, self.pending))
        if self._plain:
            numbers = sorted(v for v in values if type(v) is int and 0 <= v < _OWN_DIGEST_MAX)
            begins = [later for before, later in pairwise(numbers) if later != before + 1]
            if (len(begins) + 1) * _DENSE <= len(numbers) == len(values):
                self._add_runs(numbers, begins)
            else:
                self._add_digests(values)
        values.clear()

    def _add_runs(self, numbers: list[int], begins: list[int]) -> None:
        """Numbers in rising order, and each of them, but the first, that does not follow the one before."""
        ends = [before for before, later in pairwise(numbers) if later != before + 1]
        for begin, end in zip([numbers[0], *begins], [*ends, numbers[-1]], strict=True):
            self._add_run(begin, end)

    def _add_run(self, begin: int, end: int) -> None:
        begins, ends = self._begins, self._ends
        place = bisect_right(begins, begin)
        if (place and ends[place - 1] >= begin) or (place < len(begins) and begins[place] <= end):
            self._doubled = True
            return
        joins_left = place > 0 and ends[place - 1] == begin - 1
        joins_right = place < len(begins) and begins[place] == end + 1
        if joins_left and joins_right:
            ends[place - 1] = ends[place]
            del begins[place], ends[place]
        elif joins_left:
            ends[place - 1] = end
        elif joins_right:
            begins[place] = begin
        else:
            begins.insert(place, begin)
            ends.insert(place, end)

    def _add_digests(self, values: list[Any]) -> None:
        if not self._buckets:
            self._buckets = [array("q") for _ in range(_BUCKETS)]
        for digest in map(hash, values):
            self._buckets[digest % _BUCKETS].append(digest)

    def _is_ranged(self, digest: int) -> bool:
        place = bisect_right(self._begins, digest)
        return place > 0 and self._ends[place - 1] >= digest


_encode = msgspec.json.Encoder(order="deterministic").encode


class Sums(NamedTuple):
    """A multiset of rows as sums of keyed 64-bit digests: equal sums stand for equal multisets."""

    rows: int = 0
    keys: int = 0
    values: int = 0

    def __add__(self, other: tuple[Any, ...]) -> Sums:
        assert isinstance(other, Sums)
        return Sums(self.rows + other.rows, self.keys + other.keys, self.values + other.values)


class Rows:
    """Rows that the database's audit log must hold in the end (V9). Mutable; `sums` can be taken and put back.

    The log as it is read after the run is held against them (V9, V13); where the sums cannot tell, V9 is
    suspected. A row of a call that ended unclearly may be there or not.
    """

    __slots__ = ("by_output", "count", "keys", "values")

    def __init__(self, by_row: Literal["records", "outputs"]) -> None:
        self.by_output = by_row == "outputs"
        self.count = self.keys = self.values = 0

    @property
    def sums(self) -> Sums:
        """All so far."""
        return Sums(self.count, self.keys, self.values)

    @sums.setter
    def sums(self, sums: Sums) -> None:
        self.count, self.keys, self.values = sums

    def expect(self, entry: Entry, either: dict[Id, None]) -> None:
        """A record is resolved: note what rows it calls for."""
        record, wanted = entry.source.id, entry.wanted
        if entry.unclear and (not wanted or entry.substitute):
            either[record] = None
            return
        if not wanted:
            return
        either.pop(record, None)
        if not self.by_output:
            self.add(record, 0, wanted)
            return
        for j, v in enumerate(wanted):
            self.add(record, j, v)

    def add(self, record: Id, j: int, v: Any) -> None:
        """One row."""
        self.count += 1
        self.keys += hash(_encode((record, j)))
        if v is not UNSET:
            self.values += hash(_encode((record, j, v)))
