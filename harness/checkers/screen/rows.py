"""Rows: the multiset of rows that the database's audit log should hold in the end, as sums of digests.

Answers to V9. Invariant: equal sums of keyed 64-bit digests stand for equal multisets. A row of a call that
ended unclearly may be there or not; it is known by its id, and that is what memory grows with.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET

from harness.checkers.screen.queue_entry import Entry
from harness.history.event import Id

__all__ = ["Rows", "Sums"]

_encode = msgspec.json.Encoder(order="deterministic").encode


class Sums(NamedTuple):
    """Of a multiset of rows."""

    rows: int = 0
    keys: int = 0
    values: int = 0

    def __add__(self, other: tuple[Any, ...]) -> Sums:
        assert isinstance(other, Sums)
        return Sums(self.rows + other.rows, self.keys + other.keys, self.values + other.values)


class Rows:
    """Rows that must be there. Mutable; `sums` can be taken and put back."""

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
