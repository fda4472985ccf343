"""The rows of a job's table: their id, number and values as a history tells them, and the table that a log makes.

Invariant: a row reads the same from a SELECT and from the log of changes, so the two can be compared.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from harness.levels.job.binlog import LoggedTransaction
from harness.levels.job.job_file import SinkTable
from harness.system.json_types import Json, JsonView

_SIGNIFICANT: Final = 6
"""Decimal digits of a FLOAT column, as SELECT shows them."""
_MOVES_ROWS: Final = re.compile(
    r"^\s*RENAME\s+TABLE\b|\bRENAME\s+(?!COLUMN\b|INDEX\b|KEY\b|TABLE\b)|"
    r"\b(EXCHANGE|DROP|TRUNCATE)\s+PARTITION\b|\bIMPORT\s+TABLESPACE\b",
    re.IGNORECASE,
)
_TAKES_ALL: Final = ("TRUNCATE", "DROP TABLE", "CREATE OR REPLACE TABLE")


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRow:
    """One row of the table."""

    id: Any
    """The id as in a history: an int, a text, null, or a list with one of these for each id column."""
    j: int | None
    v: tuple[Any, ...]

    @property
    def text(self) -> str:
        """Equal for equal rows."""
        return json.dumps([self.id, self.j, self.v], default=str)

    @property
    def id_text(self) -> str:
        """Equal for equal ids."""
        return id_text(self.id)

    def told(self) -> Json:
        """The fields of an event."""
        return {"id": self.id, **({} if self.j is None else {"j": self.j}), "v": list(self.v)}


def id_text(told: object) -> str:
    """The text of an id: `17` and `"17"` are one, for a column of another type than the source's is no mistake."""
    return json.dumps([str(part) for part in told]) if isinstance(told, list) else str(told)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkColumns:
    """How the columns of the table become a row of a history."""

    sink: SinkTable
    types: Mapping[str, str]
    """The data type of each column, lower case."""
    offered: Mapping[str, Any]
    """The offered ids by their text."""

    def row(self, values: Mapping[str, object]) -> SinkRow:
        """The row with these values by column; one that is not there is null."""
        parts = [self._told(column, values) for column in self.sink.id]
        told = parts[0] if len(parts) == 1 else parts
        told = self.offered.get(id_text(told), told)
        return SinkRow(
            id=told if told is None or isinstance(told, int | str | list) else str(told),
            j=self._number(values),
            v=tuple(self._told(column, values) for column in self.sink.values),
        )

    def _number(self, values: JsonView) -> int | None:
        if not self.sink.j:
            return None
        found = values.get(self.sink.j)
        try:
            return max(0, int(found or 0))
        except (TypeError, ValueError):
            return 0

    def _told(self, column: str, values: Mapping[str, object]) -> object:
        value = values.get(column)
        match self.types.get(column):
            case "float" if isinstance(value, float):
                return told_value(float(f"{value:.{_SIGNIFICANT}g}"))
            case "json" if isinstance(value, str):
                return json.loads(value)
            case _:
                return told_value(value)


def told_value(value: object) -> object:
    """A value of a database as JSON; the same for what SELECT and the log give, and for 2, 2.0 and 2.00."""
    match value:
        case None | str():
            return value
        case float():
            return int(value) if value.is_integer() else value
        case bool() | int():
            return int(value)
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case Mapping():
            return {str(told_value(name)): told_value(inner) for name, inner in value.items()}
        case list() | tuple():
            return [told_value(inner) for inner in value]
        case _:
            return _text(value)


def _text(value: object) -> str:
    match value:
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return value.hex()
        case datetime() | date():
            return value.isoformat()
        case set():
            return ",".join(sorted(map(str, value)))
        case _:
            return str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange:
    """One change of one row of the table."""

    op: str
    row: SinkRow
    was: SinkRow | None = None


@dataclass(slots=True, kw_only=True)
class SinkReplay:
    """The table that the log so far makes of an empty one. Mutable: it takes transactions."""

    columns: SinkColumns
    rows: Counter[str] = field(default_factory=Counter)
    """How many rows there are of each text."""
    _of: dict[str, SinkRow] = field(default_factory=dict)
    _by_id: dict[str, Counter[str]] = field(default_factory=dict)

    def take(self, transaction: LoggedTransaction) -> list[RowChange]:
        """Applies a transaction; returns what it does to the table."""
        row_of = self.columns.row
        changes = [
            RowChange(
                op=change.op,
                row=row_of(change.now if change.now is not None else change.was or {}),
                was=row_of(change.was) if change.op == "update" and change.was is not None else None,
            )
            for change in transaction.changes
            if change.table == self.columns.sink.table
        ]
        if takes_all(transaction.statement, self.columns.sink.table):
            changes = [RowChange(op="delete", row=row) for row in self.all_rows()]
        for change in changes:
            if change.was is not None:
                self._put(change.was, -1)
            self._put(change.row, -1 if change.op == "delete" else 1)
        return changes

    def all_rows(self) -> list[SinkRow]:
        """Every row, in the order in which they came first."""
        return [self._of[text] for text, count in self.rows.items() for _ in range(count)]

    def of(self, told: object) -> list[SinkRow]:
        """The rows of an id."""
        counts = self._by_id.get(id_text(told), Counter[str]())
        return [self._of[text] for text, count in counts.items() for _ in range(count)]

    def _put(self, row: SinkRow, by: int) -> None:
        text = row.text
        self._of.setdefault(text, row)
        for counter in (self.rows, self._by_id.setdefault(row.id_text, Counter())):
            counter[text] += by
            if counter[text] <= 0:
                del counter[text]


def as_keys(
    sink: SinkTable,
    columns: SinkColumns,
    transactions: Iterable[LoggedTransaction],
    *,
    unique: Sequence[str],
    keys: Mapping[str, object],
) -> tuple[SinkTable, str] | None:
    """The sink with rows of keys, and what shows that; None: nothing shows that a row is of more than one record.

    The log of a run without faults shows it, and never a few odd rows: a wrong job may write those too. `unique`: the
    columns of a key of the table; `keys`: of each record its key, by the text of its id.
    """
    ids_of: dict[str, dict[str, None]] = {}
    values_of: dict[str, set[str]] = {}
    for row in _rows_in(transactions, sink.table):
        told = columns.row(row)
        ids_of.setdefault(json.dumps([row.get(name) for name in unique], default=str), {})[told.id_text] = (
            None
        )
        values_of.setdefault(told.id_text, set()).add(told.text)
    rewritten = [list(ids) for ids in ids_of.values() if len(ids) > 1]
    foreign = [text for text in values_of if text not in columns.offered]
    is_of_each_key = ids_of.keys() == {json.dumps([key], default=str) for key in keys.values()}
    is_rewritten = 2 * len(rewritten) > len(ids_of) or (is_of_each_key and bool(rewritten))
    if unique and not set(unique) & set(sink.id) and is_rewritten:
        values = dict.fromkeys([*sink.id, *sink.values])
        update = {"id": tuple(unique), "values": tuple(name for name in values if name not in unique)}
        why = (
            f"the row of {', '.join(unique)} gets other ids, first {rewritten[0][0]}, then {rewritten[0][1]}"
        )
    elif 2 * len(foreign) > len(values_of):
        update, why = {}, f"{len(foreign)} of {len(values_of)} ids are no record's, the first is {foreign[0]}"
    elif values_of.keys() == set(map(str, keys.values())) != keys.keys():
        update, why = {}, f"its {len(values_of)} ids are the keys of the {len(keys)} records"
    else:
        return None
    return sink.model_copy(update={**update, "rows": "key"}), why


def _rows_in(transactions: Iterable[LoggedTransaction], table: str) -> Iterator[JsonView]:
    for one in transactions:
        for change in one.changes:
            if change.table == table and change.now is not None:
                yield change.now


def is_of_table(statement: str, table: str) -> bool:
    """Whether a statement of DDL makes, changes or removes `table`."""
    return table in names_in(statement) and " TRIGGER " not in f" {' '.join(statement.upper().split())} "


def moves_rows(statement: str, table: str) -> bool:
    """Whether a statement of DDL brings rows to `table`, or takes some away, of which the log shows none."""
    return _MOVES_ROWS.search(statement) is not None and table in names_in(statement)


def names_in(statement: str) -> set[str]:
    """The words of a statement, names without their database."""
    for mark in "`,()":
        statement = statement.replace(mark, " ")
    return {word.rpartition(".")[2] for word in statement.split()}


def takes_all(statement: str, table: str) -> bool:
    """Whether a statement of DDL removes every row of `table`."""
    return " ".join(statement.upper().split()).startswith(_TAKES_ALL) and table in names_in(statement)


def by_id(rows: Iterable[SinkRow]) -> Mapping[str, Sequence[SinkRow]]:
    """The rows of each id, by the id's text; with numbers in their order."""
    found: dict[str, list[SinkRow]] = {}
    for row in rows:
        found.setdefault(row.id_text, []).append(row)
    return {text: sorted(same, key=lambda row: row.j or 0) for text, same in found.items()}
