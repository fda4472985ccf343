"""What the screen counts: open records between watermarks, distinct values, and sums over the rows of a sink.

`Segment` answers to `UnorderedStreamElementQueue.Segment` of Flink: it counts its open records, so one comparison
tells whether a watermark may leave. `Distinct` and `Sums` may, very rarely, doubt a correct history, which then
costs an exact check. Memory of `ExpectedRows` grows only with the records whose row may be present or absent.
`Irregular` ends the screen and does not say that the history is wrong.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from itertools import chain
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Struct

from harness.history.event import Call, Id, In, W
from harness.history.values import same


class Irregular(Exception):
    """The history leaves the regular course that the screen can follow."""


class Segment:
    """The records between two watermarks, and the watermark that ends them. Mutable."""

    __slots__ = ("came_t", "next", "open", "order", "pos", "settled_t", "w")

    def __init__(self, order: int) -> None:
        self.order = order
        self.open = 0
        self.settled_t = 0
        """When the last of its records was resolved."""
        self.w: W | None = None
        """The watermark that ends it; None until that arrives."""
        self.pos = 0
        self.came_t = 0
        self.next: Segment | None = None

    def close(self, w: W, pos: int, came_t: int) -> Segment:
        """A watermark ends it; returns the next segment."""
        self.w, self.pos, self.came_t = w, pos, came_t
        self.next = Segment(self.order + 1)
        return self.next


class Entry(Struct, eq=False, gc=False):
    """A record in one attempt, from its `in` or `restore` until it is resolved. Mutable."""

    source: In
    segment: Segment
    call: Call | None = None
    """The latest call."""
    first: Call | None = None
    """The first call, once there is a second."""
    returned: int = 0
    """The latest try whose `res` was not final."""
    wanted: list[Any] | None = None
    """Its outputs, once it has an outcome."""
    left: int = 0
    """How many of several outputs have left."""
    substitute: bool = False
    """Whether `wanted` is a timeout's substitute answer."""
    unclear: bool = False
    """Whether a call of it did not end in `ok`."""


_PENDING_MAX = 1 << 15
_BUCKETS = 64
_DENSE = 8
"""Integers that a range must hold on average to be stored as a range."""
_OWN_DIGEST_MAX = 1 << 60
"""Below this limit a non-negative integer is its own digest."""
_PLAIN = frozenset({int, str})


class Distinct:
    """Whether all values differ. Append to `pending`, call `settle` from time to time, query at the end.

    Equal values are never taken for different; different values may, very rarely, be taken for equal. Memory: the
    latest thousands of values, then ranges of consecutive integers, and a 64-bit digest of each other value.
    """

    def __init__(self) -> None:
        self.pending: list[Any] = []
        self._plain = True
        """Whether all values are integers and strings."""
        self._doubled = False
        self._begins: list[int] = []
        self._ends: list[int] = []
        """Disjoint ranges of integers in rising order; ends are inclusive."""
        self._buckets: list[array[int]] = []

    def __bool__(self) -> bool:
        """Whether any value was appended."""
        return bool(self.pending or self._begins or self._buckets)

    def settle(self) -> None:
        """Replace the pending values by ranges or digests if they are many."""
        if len(self.pending) >= _PENDING_MAX:
            self._condense()

    def all_different(self) -> bool:
        """Whether all values are integers and strings, and no two are equal."""
        if not self._begins and not self._buckets:
            return _PLAIN.issuperset(map(type, self.pending)) and len(set(self.pending)) == len(self.pending)
        self._condense()
        if (
            self._doubled
            or not self._plain
            or any(len(set(bucket)) < len(bucket) for bucket in self._buckets)
        ):
            return False
        if self._begins:
            for digest in chain.from_iterable(self._buckets):
                place = bisect_right(self._begins, digest)
                if place > 0 and self._ends[place - 1] >= digest:
                    return False
        return True

    def merge(self, other: Distinct) -> None:
        """Add the values of another one, made by this process or by one with the same hash seed."""
        self._condense()
        other._condense()
        self._plain &= other._plain
        self._doubled |= other._doubled
        for begin, end in zip(other._begins, other._ends, strict=True):
            self._add_run(begin, end)
        for mine, theirs in zip(self._buckets, other._buckets, strict=False):
            mine.extend(theirs)
        if not self._buckets:
            self._buckets = other._buckets

    def _condense(self) -> None:
        values, kinds = self.pending, set(map(type, self.pending))
        self._plain = self._plain and kinds <= _PLAIN
        if self._plain:
            runs = _runs(values) if kinds == {int} else None
            for begin, end in runs or ():
                self._add_run(begin, end)
            if runs is None:
                self._buckets = self._buckets or [array("q") for _ in range(_BUCKETS)]
                for digest in map(hash, values):
                    self._buckets[digest % _BUCKETS].append(digest)
        values.clear()

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


def _runs(values: list[int]) -> list[tuple[int, int]] | None:
    """The ranges that these integers form; None if they are too many to be worth it, or two values are equal."""
    numbers = sorted(values)
    if numbers[0] < 0 or numbers[-1] >= _OWN_DIGEST_MAX or len(set(numbers)) < len(numbers):
        return None
    places = range(len(numbers))
    runs: list[tuple[int, int]] = []
    at = 0
    while at < len(numbers):
        if (len(runs) + 1) * _DENSE > len(numbers):
            return None
        # In distinct sorted numbers, a number less its place grows at each gap, and only there.
        begin = at
        at = bisect_right(places, numbers[at] - at, lo=at, key=lambda place: numbers[place] - place)
        runs.append((numbers[begin], numbers[at - 1]))
    return runs


_SIMPLE = frozenset({str, int, type(None), bool})
"""Types whose values are equal if `type` and `==` agree."""


def alike(left: object, right: object) -> bool:
    """As `history.values.same`, but faster for equal values."""
    if type(left) is not type(right) or left != right:
        return False
    if type(left) in _SIMPLE:
        return True
    try:
        written_alike = _encode_fast(left) == _encode_fast(right)
    except (ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        written_alike = False
    return written_alike or same(left, right)


_encode_fast = msgspec.json.encode
_encode = msgspec.json.Encoder(order="deterministic").encode


class Sums(NamedTuple):
    """A multiset of rows as sums of 64-bit hashes; equal sums are taken for equal multisets."""

    rows: int = 0
    keys: int = 0
    values: int = 0

    def __add__(self, other: tuple[object, ...]) -> Sums:
        assert isinstance(other, Sums)
        return Sums(self.rows + other.rows, self.keys + other.keys, self.values + other.values)


class ExpectedRows:
    """Sums over audit-log rows (V9): of the expected rows of one attempt chain, or of the rows read. Mutable.

    `sums` can be read and set, so an attempt can continue from the sums of its snap.
    """

    __slots__ = ("by_output", "count", "keys", "values")

    def __init__(self, by_row: Literal["records", "outputs"]) -> None:
        self.by_output = by_row == "outputs"
        self.count = self.keys = self.values = 0

    @property
    def sums(self) -> Sums:
        return Sums(self.count, self.keys, self.values)

    @sums.setter
    def sums(self, sums: Sums) -> None:
        self.count, self.keys, self.values = sums

    def expect(self, entry: Entry, either: dict[Id, None]) -> None:
        """Add the rows that a resolved record calls for, or note in `either` that its row is optional."""
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

    def add(self, record: Id, j: int, v: object) -> None:
        self.count += 1
        self.keys += hash(_encode((record, j)))
        if v is not UNSET:
            self.values += hash(_encode((record, j, v)))
