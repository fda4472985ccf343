"""Distinct: whether values of a whole history were all different, in next to no memory where they are numbered.

Invariant: equal values are never taken for different ones; different ones may, very rarely, be taken for equal,
which costs an exact reading and no more. Memory: the values themselves for the first thousands; then the ranges
that integers without gaps make up, and a 64-bit digest of each value else.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from itertools import pairwise
from typing import Any

__all__ = ["Distinct"]

_PENDING_MAX = 1 << 15
_BUCKETS = 64
_DENSE = 8
"""Integers that a range must hold, on the average, to be kept as such."""
_OWN_DIGEST_MAX = 1 << 60
"""Up to here an integer from 0 on is its own digest."""
_PLAIN = frozenset({int, str})


class Distinct:
    """Append to `pending`, call `settle` now and then, ask at the end. Mutable."""

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
