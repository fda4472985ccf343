"""Offered records, and the rows of a slot against those that are expected of it (`docs/reference/history-outside.md`).

A slot is an id, or with the header's `j` an id and a j; where rows are of keys it is a key. Invariant: a value is kept
as its digest; digests are equal for equal values. Counting is incremental, so that each question about a slot takes
constant time.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from hashlib import blake2b

import msgspec
from msgspec import UNSET

from harness.history.outside import ExpectedRow, Offer, OutsideEvent, OutsideHeader, OutsideId
from harness.history.values import identity, shown

RecordKey = int | str | tuple[object, ...] | None
"""An id as a dictionary key; of several columns a tuple."""
SlotKey = tuple[RecordKey, int | None]
"""A record's id and, if the header names it, a j."""
Digest = bytes
NO_KEY = ("no key",)
"""The key of a record without one; no identity of a JSON value equals it."""
_BYTES = 16
_FEW = 4
"""Up to so many rows of a slot are kept in a tuple, which takes less memory than a dictionary."""


def key_of(id_: OutsideId) -> RecordKey:
    """The id as a dictionary key."""
    return tuple(id_) if isinstance(id_, list) else id_


def cells(key: RecordKey) -> int | str | tuple[object, ...]:
    """The id as an anomaly names it: null is a tuple of one column, for there None means that no record is named."""
    return (None,) if key is None else key


def digest(values: object) -> Digest:
    """A digest that is equal for equal values."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    if "-0.0" in text:
        text = json.dumps(_without_negative_zero(values), sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=_BYTES).digest()


def named(slot: SlotKey, noun: str = "record") -> str:
    """A slot in a sentence: `record 7`, `row 1 of record 7`, `key 7`."""
    key, j = slot
    told = f"{noun} {shown(list(key) if isinstance(key, tuple) else key)}"
    return told if j is None else f"row {j} of {told}"


def told_values(columns: Sequence[str], values: Sequence[object]) -> str:
    """`name = "Ann", tier = 3`."""
    return (
        ", ".join(f"{name} = {shown(value)}" for name, value in zip(columns, values, strict=False)) or "a row"
    )


def unlike(columns: Sequence[str], have: Sequence[object], rights: Sequence[Sequence[object]]) -> str:
    """Each column in which a row differs from the likest right one, with both values."""
    pairs = [list(zip(columns, have, right, strict=False)) for right in rights]
    apart = [[pair for pair in of_row if digest(pair[1]) != digest(pair[2])] for of_row in pairs]
    least = min(apart, key=len, default=[])
    return ", ".join(f"{name} = {shown(value)} where {shown(right)} is right" for name, value, right in least)


def _without_negative_zero(value: object) -> object:
    match value:
        case float():
            return value + 0.0
        case list():
            return [_without_negative_zero(item) for item in value]
        case dict():
            return {name: _without_negative_zero(item) for name, item in value.items()}
        case _:
            return value


class Sourced:
    """One offered record."""

    __slots__ = ("_rows", "expect", "fails", "key", "n", "part", "pos", "sentinel")

    def __init__(self, offer: Offer) -> None:
        self.n = offer.n
        self.part = offer.part
        self.pos = offer.pos
        self.fails = offer.fails is True
        self.sentinel = offer.sentinel is True
        self.key: Hashable = NO_KEY if offer.key is UNSET else identity(offer.key)
        expect = [] if self.fails else offer.expect
        self.expect = None if expect is UNSET else tuple(map(digest, expect))
        """The digests of the rows that it must yield; None: not known."""
        self._rows = b"[]" if expect is UNSET else msgspec.json.encode(expect)

    def rows(self, j: int | None) -> list[list[object]]:
        """The rows that it must yield, or the one numbered j."""
        rows: list[list[object]] = msgspec.json.decode(self._rows)
        return rows if j is None else rows[j : j + 1]

    @property
    def expects_nothing(self) -> bool:
        return self.expect == ()


class Records:
    """What was offered, in the order of the offers, and what the table must hold. Grows with both."""

    def __init__(self, header: OutsideHeader, events: Iterable[OutsideEvent]) -> None:
        self.numbered = header.sink.j is not None
        """Whether the rows of a record are numbered."""
        self.of_keys = header.sink.rows == "key"
        """Whether rows are of keys, not of records."""
        self.noun = "key" if self.of_keys else "record"
        self._columns = header.sink.values
        self.by_key: dict[RecordKey, Sourced] = {}
        self.due: dict[RecordKey, list[ExpectedRow]] = {}
        """The expected rows of each key, where rows are of keys."""
        for event in events:
            if isinstance(event, Offer):
                self.by_key[key_of(event.id)] = Sourced(event)
            elif isinstance(event, ExpectedRow):
                self.due.setdefault(key_of(event.id), []).append(event)

    def untouched(self, slot: SlotKey) -> SlotRows:
        """A slot of which no row has appeared."""
        key, j = slot
        if self.of_keys:
            rows = tuple(digest(row.v) for row in self.due.get(key, ()))
            return SlotRows(rows, numbered=False, of_key=True)
        record = self.by_key.get(key)
        expected = None if record is None else record.expect
        if expected is not None and j is not None:
            expected = expected[j : j + 1]
        return SlotRows(expected, numbered=self.numbered)

    def is_sentinel(self, key: RecordKey) -> bool:
        """Whether rows of `key` are those of a sentinel."""
        record = self.by_key.get(key)
        return record is not None and record.sentinel and not self.of_keys

    def wrong(self, slot: SlotKey, values: Sequence[object]) -> str:
        """How a row of an offered record is wrong: each column with its value and the right one."""
        rights = self.by_key[slot[0]].rows(slot[1])
        apart = unlike(self._columns, values, rights)
        if apart:
            return f"{named(slot)} has {apart}"
        return f"{named(slot)} has a row ({told_values(self._columns, values)}) that it must not yield"

    def slots(self, key: RecordKey, *, highest: int) -> Iterator[SlotKey]:
        """The slots of an offered record of which something can be missing; `highest`: the highest j ever shown."""
        if not self.numbered:
            yield key, None
            return
        expect = self.by_key[key].expect
        for j in range(max(highest, 0) + 1 if expect is None else len(expect)):
            yield key, j


class _Bag:
    """A multiset of digests, small ones compact. Mutable."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: tuple[Digest, ...] | Counter[Digest] = ()

    def count(self, value: Digest) -> int:
        rows = self._rows
        return rows.count(value) if isinstance(rows, tuple) else rows[value]

    def add(self, value: Digest) -> None:
        rows = self._rows
        if isinstance(rows, tuple) and len(rows) < _FEW:
            self._rows = (*rows, value)
            return
        if isinstance(rows, tuple):
            rows = self._rows = Counter(rows)
        rows[value] += 1

    def remove(self, value: Digest) -> None:
        rows = self._rows
        if isinstance(rows, tuple):
            place = rows.index(value)
            self._rows = (*rows[:place], *rows[place + 1 :])
        else:
            rows[value] -= 1
            if not rows[value]:
                del rows[value]

    def counts(self) -> Counter[Digest]:
        return Counter(self._rows)


class SlotRows:
    """The rows of one slot at a moment, against the expected ones. Mutable."""

    __slots__ = (
        "_expected",
        "_extra",
        "_needed",
        "_right",
        "_rows",
        "n",
        "numbered",
        "of_key",
        "size",
        "wrong",
    )

    def __init__(self, expected: tuple[Digest, ...] | None, *, numbered: bool, of_key: bool = False) -> None:
        self._rows = _Bag()
        self._expected: tuple[Digest, ...] | Counter[Digest] | None = expected
        if expected is not None and len(expected) > _FEW:
            self._expected = Counter(expected)
        self._needed = None if expected is None else len(expected)
        self._right = 0
        """How many rows are expected ones."""
        self._extra = 0
        """How many rows have an expected value and are too many; without expectation: repeat another row."""
        self.wrong = 0
        self.size = 0
        self.numbered = numbered
        self.of_key = of_key
        self.n: int | None = None
        """The number of the event that showed its first row; None: none has."""

    def add(self, value: Digest, n: int) -> None:
        """A row appears at event `n`."""
        if isinstance(self._expected, tuple) and value in self._expected:
            value = self._expected[self._expected.index(value)]  # one object for the row and its expectation
        have = self._rows.count(value)
        self._rows.add(value)
        self._weigh(value, have, +1)
        if self.n is None:
            self.n = n

    def remove(self, value: Digest) -> bool:
        """A row is taken away; returns whether it was there."""
        have = self._rows.count(value)
        if not have:
            return False
        self._rows.remove(value)
        self._weigh(value, have - 1, -1)
        return True

    def _weigh(self, value: Digest, others: int, change: int) -> None:
        """Count a row beside so many `others` of its value in or out."""
        self.size += change
        expected = self._expected
        if expected is None:
            self._extra += change * (others > 0)
            return
        wanted = expected.count(value) if isinstance(expected, tuple) else expected[value]
        if not wanted:
            self.wrong += change
        elif others < wanted:
            self._right += change
        else:
            self._extra += change

    def expects(self, value: Digest) -> bool:
        """Whether some expected row has this value."""
        return self._expected is not None and value in self._expected

    @property
    def missing(self) -> int:
        """How many of the expected rows are missing; a wrong row stands for one of them, but not of a key."""
        if self._needed is None:
            return 0 if self.size else 1
        return max(0, self._needed - self._right - (0 if self.of_key else self.wrong))

    @property
    def missing_at_first(self) -> int:
        """How many are missing while no row has appeared."""
        return 1 if self._needed is None else self._needed

    @property
    def has_all(self) -> bool:
        """Whether every expected row is there, and of a key no other; without expectation: nothing is missing."""
        if self._needed is None:
            return self.size > 0
        return self._right == self._needed and not (self.of_key and self.size > self._needed)

    @property
    def has_too_many(self) -> bool:
        """Whether there are more rows than expected, whatever their values."""
        if self._needed is None:
            return self.numbered and self.size > 1
        return 0 < self._needed < self.size

    @property
    def is_doubled(self) -> bool:
        if self._needed is None:
            return self.has_too_many or (not self.numbered and self._extra > 0)
        return self._needed > 0 and (self._needed < self.size or self._extra > 0)

    @property
    def surplus(self) -> str:
        """The clause that says what of it is doubled."""
        wanted = 1 if self._needed is None else self._needed
        if self.size > wanted and self.has_too_many:
            return (
                f"has {self.size} rows in the table, where {wanted} {'is' if wanted == 1 else 'are'} right,"
            )
        return "has one row twice in the table"

    def counts(self) -> Counter[Digest]:
        """The rows as a multiset of digests."""
        return self._rows.counts()
