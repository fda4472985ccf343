"""Replays the log of changes: the table after each transaction, and what each slot of it went through.

Invariant: only transactions that have their `last` count. The log convicts (`found`, `zombies`) as if it agreed with
the readings; whether it may is for the caller to say. Memory grows with the slots and with the longest transaction.

The two readings of the table and of the dead letters, and which parts of them were read to their end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import UNSET

from harness.history.outside import DeadLetterRow, LogRow, OutsideHeader, OutsideId, PartRead, TableRow
from harness.judge.checkers.outside.slots import (
    NO_KEY,
    Digest,
    RecordKey,
    Records,
    SlotKey,
    SlotRows,
    digest,
    key_of,
    named,
)


class SlotHistory(NamedTuple):
    """What a transaction or a reading shows of a slot."""

    events: tuple[int, ...]
    say: str


class TableEffect(NamedTuple):
    """A transaction after which the table is another one."""

    tx: int
    start: int | None
    """None: not known."""
    n: int


class ZombieEffect(NamedTuple):
    """An effect of a lower start after one of a higher."""

    effect: TableEffect
    before: TableEffect
    """The effect of the highest start until then."""


class LoggedSlot:
    """One slot in the replay, and what it went through. Mutable."""

    __slots__ = ("_segments", "changed", "is_whole_there", "least", "missing_there", "rows", "spoilt")

    def __init__(self, rows: SlotRows) -> None:
        self.rows = rows
        self.least: int | None = None
        """The least number of rows missing after a transaction before reading 1; None: no such transaction."""
        self.missing_there = rows.missing
        """How many rows were missing at the `finished` or `giveup`."""
        self.is_whole_there = rows.has_all
        self.changed: TableEffect | None = None
        """The last transaction that gave a key other rows."""
        self.spoilt: TableEffect | None = None
        """That which last changed a key whose rows were the expected ones."""
        self._segments: tuple[tuple[int, int], ...] | None = None
        """(rows missing, faults begun by then): how many were missing since then, rising; None: as at first."""

    def now_missing(self, missing: int, faults: int) -> tuple[int, int] | None:
        """So many rows are missing now; returns the faults (first, one after the last) that began while more were."""
        segments = ((self.rows.missing_at_first, 0),) if self._segments is None else self._segments
        reached = faults
        while segments and segments[-1][0] > missing:
            reached, segments = segments[-1][1], segments[:-1]
        if missing and (not segments or segments[-1][0] < missing):
            segments = (*segments, (missing, faults))
        self._segments = segments
        return (reached, faults) if reached < faults else None


class SlotOrder:
    """Slots that first appear after a later one of the same part, or of the same part and key. Mutable."""

    def __init__(self, *, by_key: bool) -> None:
        self._by_key = by_key
        self._highest: dict[Any, tuple[int, int, int, SlotKey]] = {}
        """Position and j of the highest slot so far, the event that showed it, and the slot itself."""
        self.found: dict[SlotKey, SlotHistory] = {}
        self.compared = 0
        """How many slots came after another one that they are compared with."""

    def appear(self, slot: SlotKey, n: int, records: Records) -> None:
        """The slot of an offered record appears at event `n`."""
        record = records.by_key[slot[0]]
        if self._by_key and record.key == NO_KEY:
            return
        group = (record.part, record.key) if self._by_key else record.part
        now = (record.pos, slot[1] or 0, n, slot)
        highest = self._highest.setdefault(group, now)
        if highest is now:
            return
        self.compared += 1
        if now[:2] > highest[:2]:
            self._highest[group] = now
            return
        before = records.by_key[highest[3][0]]
        say = (
            f"{named(slot)} appears after {named(highest[3])}, though its record stands before in part {record.part}"
            f" of the source (position {record.pos}, not {before.pos})"
        )
        events = dict.fromkeys((record.n, before.n, highest[2], n))
        self.found[slot] = SlotHistory(tuple(sorted(events)), say)


class TableReplay:
    """The table that the log makes of an empty one. Mutable."""

    def __init__(self, header: OutsideHeader, records: Records) -> None:
        self._records = records
        self._write = header.sink.write
        self._doubles = header.claims.delivery != "at-least-once"
        self._upserts = header.sink.write == "upsert"
        self.slots: dict[SlotKey, LoggedSlot] = {}
        self.found: dict[tuple[str, SlotKey], SlotHistory] = {}
        """What V8 convicts of, by class and slot."""
        self.by_source, self.by_key = SlotOrder(by_key=False), SlotOrder(by_key=True)
        self.zombies: list[ZombieEffect] = []
        self.unowned: list[int] = []
        """The first effect whose start is not known."""
        self.effects = 0
        self.transactions = 0
        self.rows = 0
        """How many `row` events there were."""
        self.has_starts = False
        """Whether any `row` has a start."""
        self.missing_row: SlotHistory | None = None
        """The first row that is taken away and is not there."""
        self.highest: dict[Any, int] = {}
        """The highest j of a row that was ever visible, by id; 0 where rows have no j."""
        self.less_later: SlotHistory | None = None
        """A slot of which less is missing after the `finished` than there."""
        self.changed_after: SlotHistory | None = None
        """The first effect between the `finished` and reading 1."""
        self._highest_effect: TableEffect | None = None
        self._open: list[LogRow] = []
        self._faults = 0
        self._bites: Counter[int] = Counter()
        self._is_over = False
        self._is_read = False

    def step(self, row: LogRow) -> None:
        """The next row of the log."""
        self.rows += 1
        self.has_starts |= isinstance(row.start, int)
        self._open.append(row)
        if row.last is True:
            self._commit(self._open)
            self._open = []

    def begin_fault(self) -> None:
        """A fault begins."""
        self._faults += 1

    def begin_reading(self) -> None:
        """Reading 1 begins."""
        self._is_read = True

    def mark(self) -> None:
        """The `finished` or `giveup` comes: remember what is missing."""
        self._is_over = True
        for slot in self.slots.values():
            slot.missing_there, slot.is_whole_there = slot.rows.missing, slot.rows.has_all

    def bitten(self) -> Sequence[bool]:
        """For each fault, in the order of their beginnings, whether a later transaction showed what was missing."""
        depth, found = 0, []
        for fault in range(self._faults):
            depth += self._bites[fault]
            found.append(depth > 0)
        return found

    def missing_there(self, slot: SlotKey) -> int:
        """How many rows of a slot were missing at the `finished` or `giveup`."""
        logged = self.slots.get(slot)
        return self._records.untouched(slot).missing if logged is None else logged.missing_there

    def has_all_there(self, slot: SlotKey) -> bool:
        """Whether every expected row of a slot was there at that moment."""
        logged = self.slots.get(slot)
        return self._records.untouched(slot).has_all if logged is None else logged.is_whole_there

    def least(self, slot: SlotKey) -> int | None:
        """The least number of its rows missing after a transaction before reading 1."""
        logged = self.slots.get(slot)
        return None if logged is None else logged.least

    def _commit(self, rows: Sequence[LogRow]) -> None:
        """Apply one transaction, then look at each slot that it touched."""
        self.transactions += 1
        tx = rows[-1].tx
        before: dict[SlotKey, tuple[int, int]] = {}
        """For each slot touched: how many rows were missing, and the last event that touched it."""
        net: Counter[tuple[SlotKey, Digest]] = Counter()
        right: set[SlotKey] = set()
        """Those that held the expected rows before it, and no other."""
        for row in rows:
            for key, value, change in _changes(row):
                slot = self.slots.get(key)
                if slot is None:
                    slot = self.slots[key] = LoggedSlot(self._records.untouched(key))
                if key not in before and slot.rows.has_all:
                    right.add(key)
                missing = before[key][0] if key in before else slot.rows.missing
                before[key] = missing, row.n
                net[key, value] += change
                self._change(key, slot, value, change, row)
        for key, (missing, n) in before.items():
            if self.slots[key].rows.size:
                record, j = key
                self.highest[record] = max(j or 0, self.highest.get(record, 0))
            if self._records.of_keys:
                self._count_missing(key, missing, n)
            elif key[0] in self._records.by_key:
                self._look(key, missing, n, tx)
            elif self.slots[key].rows.size:
                say = (
                    f"a row of {named(key)}, which was never offered, is in the table after transaction {tx}"
                )
                self.found.setdefault(("phantom", key), SlotHistory((n,), say))
                self._look_twice(key, self.slots[key], (n,), tx)
        changed = dict.fromkeys(slot for (slot, _), change in net.items() if change)
        for key in changed if self._records.of_keys else ():
            self._note_change(self.slots[key], rows[-1], was_right=key in right)
        if changed:
            self._note_effect(rows[-1])

    def _change(self, key: SlotKey, slot: LoggedSlot, value: Digest, change: int, row: LogRow) -> None:
        if change < 0:
            if not slot.rows.remove(value) and self.missing_row is None:
                whose = named(key, self._records.noun)
                say = f"the log takes a row of {whose} away that is not there (event {row.n})"
                self.missing_row = SlotHistory((row.n,), say)
            return
        is_first = slot.rows.n is None and not self._records.of_keys
        slot.rows.add(value, row.n)
        if is_first and key[0] in self._records.by_key:
            self.by_source.appear(key, row.n, self._records)
            self.by_key.appear(key, row.n, self._records)

    def _look(self, key: SlotKey, before: int, n: int, tx: int) -> None:
        """Look at the slot of an offered record after transaction `tx`, which touched it last at event `n`."""
        slot = self.slots[key]
        rows, missing = slot.rows, slot.rows.missing
        offered = self._records.by_key[key[0]].n
        shown_by = tuple(sorted({offered, n if rows.n is None else rows.n, n}))
        self._look_twice(key, slot, shown_by, tx)
        if rows.wrong and not self._upserts and ("wrong-value", key) not in self.found:
            say = f"after transaction {tx} {self._records.wrong(key, self._wrong_row(key))}"
            self.found.setdefault(("wrong-value", key), SlotHistory(shown_by, say))
        if missing > before and self._write == "append":
            say = f"a row of {named(key)} was in the table, and transaction {tx} takes it away"
            self.found.setdefault(("deleted", key), SlotHistory(shown_by, say))
        self._count_missing(key, before, n)

    def _wrong_row(self, key: SlotKey) -> list[object]:
        """The values of the last row that the open transaction gave a slot, of those that it must not have."""
        given = [row.v for row in self._open if row.op != "delete" and slot_of(row.id, row.j) == key]
        return next(v for v in reversed(given) if not self.slots[key].rows.expects(digest(v)))

    def _count_missing(self, key: SlotKey, before: int, n: int) -> None:
        """Note how much of a slot is missing after a transaction; `before`: how much was before it."""
        slot = self.slots[key]
        missing, noun = slot.rows.missing, self._records.noun
        if not self._is_read:
            slot.least = missing if slot.least is None else min(slot.least, missing)
        is_later = self._is_over and missing < slot.missing_there and self.less_later is None
        if is_later and not self._records.is_sentinel(key[0]):
            say = f"a row of {named(key, noun)} that was missing then is in the table later (event {n})"
            self.less_later = SlotHistory((n,), say)
        if missing != before and (faults := slot.now_missing(missing, self._faults)) is not None:
            self._bites[faults[0]] += 1
            self._bites[faults[1]] -= 1

    def _look_twice(self, key: SlotKey, slot: LoggedSlot, shown_by: tuple[int, ...], tx: int) -> None:
        """Look whether a slot is doubled after transaction `tx`."""
        rows = slot.rows
        if self._doubles and (rows.has_too_many if self._upserts else rows.is_doubled):
            events = tuple(sorted({*shown_by, *(() if rows.n is None else (rows.n,))}))
            self.found.setdefault(
                ("duplicate", key), SlotHistory(events, f"{named(key)} {rows.surplus} after transaction {tx}")
            )

    def _note_change(self, slot: LoggedSlot, row: LogRow, *, was_right: bool) -> None:
        """The transaction that `row` ends gives a key other rows."""
        slot.changed = TableEffect(row.tx, row.start if isinstance(row.start, int) else None, row.n)
        if was_right:
            slot.spoilt = slot.changed

    def _note_effect(self, row: LogRow) -> None:
        """The transaction that `row` ends has an effect."""
        self.effects += 1
        if self._is_over and not self._is_read and self.changed_after is None:
            say = f"transaction {row.tx} changed the table later (event {row.n})"
            self.changed_after = SlotHistory((row.n,), say)
        if not isinstance(row.start, int):
            self.unowned = self.unowned or [row.n]
            return
        effect = TableEffect(row.tx, row.start, row.n)
        highest = self._highest_effect
        if highest is None or highest.start is None or row.start >= highest.start:
            self._highest_effect = effect
        else:
            self.zombies.append(ZombieEffect(effect, highest))


def _changes(row: LogRow) -> Iterator[tuple[SlotKey, Digest, int]]:
    """The rows that a row of the log takes away (-1) and adds (+1)."""
    if row.op == "update" and isinstance(row.was, dict):
        yield slot_of(row.was["id"], row.was.get("j")), digest(row.was["v"]), -1
    value = digest(row.v)
    yield slot_of(row.id, row.j), value, -1 if row.op == "delete" else +1


def slot_of(id_: OutsideId, j: object) -> SlotKey:
    """The slot of a row."""
    return key_of(id_), j if isinstance(j, int) else None


def differs(slots: Mapping[SlotKey, LoggedSlot], reading: Mapping[SlotKey, SlotRows]) -> SlotKey | None:
    """A slot whose rows in the replay are not those of a reading; None: there is none."""
    for key, logged in slots.items():
        other = reading.get(key)
        if other is None:
            if logged.rows.size:
                return key
        elif logged.rows.size != other.size or logged.rows.counts() != other.counts():
            return key
    return next((key for key in reading if key not in slots), None)


class Reading:
    """One reading. Mutable; grows with its slots and dead letters.

    `found` holds what V8 convicts of, whatever the header claims: its users choose.
    """

    def __init__(self, number: int, records: Records) -> None:
        self.number = number
        self._records = records
        self.slots: dict[SlotKey, SlotRows] = {}
        self.shown: dict[SlotKey, list[TableRow]] = {}
        """The rows themselves, where rows are of keys."""
        self.dead: dict[RecordKey, list[int]] = {}
        """The events of the dead letters, by id."""
        self.read: dict[str, int] = {}
        """The `read` of each part that counts."""
        self.warnings: list[str] = []
        self.log_differs = False
        """Whether the `read` of the log counts another number of rows."""
        self.found: dict[tuple[str, SlotKey], SlotHistory] = {}
        self.crowded: set[SlotKey] = set()
        """The slots with more rows than expected, whatever their values."""
        self._table_rows = 0
        self._dead_rows = 0
        self.begun = False
        """Whether the history has any event of it."""

    def step(self, event: TableRow | DeadLetterRow | PartRead, *, log_rows: int) -> None:
        """The next event; `log_rows`: how many `row` events stand before it."""
        self.begun = True
        match event:
            case TableRow():
                self._table_rows += 1
                self._see(event)
            case DeadLetterRow():
                self._dead_rows += 1
                self.dead.setdefault(key_of(event.id), []).append(event.n)
            case PartRead():
                here = {"table": self._table_rows, "dead": self._dead_rows, "log": log_rows}[event.of]
                if event.rows == here:
                    self.read[event.of] = event.n
                    return
                self.log_differs |= event.of == "log"
                self.warnings.append(
                    f"the read of `{event.of}` in reading {self.number} (event {event.n}) counts {event.rows} rows,"
                    f" but the history holds {here}; it does not count"
                )

    def _see(self, row: TableRow) -> None:
        key = slot_of(row.id, None if row.j is UNSET else row.j)
        rows = self.slots.get(key)
        if rows is None:
            rows = self.slots[key] = self._records.untouched(key)
        wrong = rows.wrong
        rows.add(digest(row.v), row.n)
        if self._records.of_keys:
            self.shown.setdefault(key, []).append(row)
            return
        record = self._records.by_key.get(key[0])
        if record is None:
            say = f"a row of {named(key)}, which was never offered, is in the table in reading {self.number}"
            self.found.setdefault(("phantom", key), SlotHistory((row.n,), say))
        offered = {record.n} if record is not None else set()
        events = tuple(sorted({*offered, row.n if rows.n is None else rows.n, row.n}))
        if rows.is_doubled:
            say = f"{named(key)} {rows.surplus} in reading {self.number}"
            self.found.setdefault(("duplicate", key), SlotHistory(events, say))
        if rows.has_too_many:
            self.crowded.add(key)
        if rows.wrong > wrong:
            say = f"in reading {self.number} {self._records.wrong(key, row.v)}"
            self.found.setdefault(("wrong-value", key), SlotHistory(tuple(sorted({*offered, row.n})), say))

    def missing(self, slot: SlotKey) -> int:
        """How many of its rows are missing."""
        rows = self.slots.get(slot)
        return self._records.untouched(slot).missing if rows is None else rows.missing

    def has_all(self, slot: SlotKey) -> bool:
        """Whether every expected row is there."""
        rows = self.slots.get(slot)
        return self._records.untouched(slot).has_all if rows is None else rows.has_all
