"""The two readings of the table and of the dead letters, and which parts of them were read to their end."""

from __future__ import annotations

from msgspec import UNSET

from harness.history.outside import DeadLetterRow, PartRead, TableRow
from harness.judge.checkers.outside.replay import SlotHistory, named, slot_of
from harness.judge.checkers.outside.slots import RecordKey, Records, SlotKey, SlotRows, digest, key_of


class Reading:
    """One reading. Mutable; grows with its slots and dead letters.

    `found` holds what V8 convicts of, whatever the header claims: its users choose.
    """

    def __init__(self, number: int, records: Records) -> None:
        self.number = number
        self._records = records
        self.slots: dict[SlotKey, SlotRows] = {}
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
            say = f"{named(key)} has a row in the table in reading {self.number} that it must not yield"
            self.found.setdefault(("wrong-value", key), SlotHistory(tuple(sorted({*offered, row.n})), say))

    def missing(self, slot: SlotKey) -> int:
        """How many of its rows are missing."""
        rows = self.slots.get(slot)
        return self._records.untouched(slot).missing if rows is None else rows.missing

    def has_all(self, slot: SlotKey) -> bool:
        """Whether every expected row is there."""
        rows = self.slots.get(slot)
        return self._records.untouched(slot).has_all if rows is None else rows.has_all
