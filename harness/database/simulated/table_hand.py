"""The hand on the tables of the simulated server (`harness.database.table_editor`)."""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec.structs import replace

from harness.database.simulated.tables import OutputRow, SimulatedTables, StoredDeadLetter
from harness.database.table_editor import ALTERED, FAR_AWAY, STRANGER, TouchedRow

_T = TypeVar("_T")


class SimulatedTableHand:
    """A `TableEditor`; its lists are in the order of `seq`."""

    def __init__(self, tables: SimulatedTables) -> None:
        self._tables = tables

    def delete(self, table: str) -> TouchedRow:
        rows = self._rows(table)
        touched = _named(_first(rows))
        del rows[0]
        return touched

    def double(self, table: str) -> TouchedRow:
        rows = self._rows(table)
        row = _first(rows)
        is_keyed = self._tables.keyed and table != "audit"
        subtask = row.subtask + FAR_AWAY if is_keyed else row.subtask
        rows.append(replace(row, seq=rows[-1].seq + 1, subtask=subtask))
        return _named(row)

    def alter(self, table: str) -> TouchedRow:
        rows = self._rows(table)
        row = _first(rows)
        rows[0] = replace(row, **{"error" if isinstance(row, StoredDeadLetter) else "v": ALTERED})
        return _named(row)

    def swap(self, table: str) -> tuple[TouchedRow, TouchedRow]:
        rows = self._rows(table)
        row = _first(rows)
        others = [
            place for place, other in enumerate(rows) if other.subtask == row.subtask and other.id != row.id
        ]
        if not others:
            raise LookupError(f"the table {table} has no other row of subtask {row.subtask}")
        other = rows[others[-1]]
        rows[0], rows[others[-1]] = replace(other, seq=row.seq), replace(row, seq=other.seq)
        return _named(row), _named(other)

    def add(self, table: str) -> TouchedRow:
        rows = self._rows(table)
        seq = rows[-1].seq + 1 if rows else 1
        if table == "dead_letter":
            rows.append(StoredDeadLetter(seq, 0, STRANGER, ALTERED, 1, 1))
        else:
            rows.append(OutputRow(seq, 0, STRANGER, 0, ALTERED, 1, 1))
        return _named(rows[-1])

    def hide(self, table: str) -> None:
        self._tables.unreadable[table] = None

    def _rows(self, table: str) -> list[Any]:
        rows: list[Any] = getattr(self._tables, table)
        return rows


def _first(rows: list[_T]) -> _T:
    if not rows:
        raise LookupError("the table has no row")
    return rows[0]


def _named(row: OutputRow | StoredDeadLetter) -> TouchedRow:
    return TouchedRow(id=row.id, j=row.j if isinstance(row, OutputRow) else None)
