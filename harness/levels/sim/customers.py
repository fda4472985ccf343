"""The table `customer` of the simulated server: rows by key for the reference lookup, SQLite for any other SELECT.

Invariant: both show the same rows, and both show a renamed column or table (fault `schema_change`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, Final

__all__ = ["Customers", "Failed"]

_MS: Final = 1000
_AWAY: Final = "floodmark_renamed"


class Failed(Exception):
    """The statement cannot be executed: MySQL's number, and a message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message


class Customers:
    """Mutable: what has another name for a while. `rows`: (k, name, city, tier) each."""

    def __init__(self, rows: Iterable[Sequence[Any]]) -> None:
        self._rows = [tuple(row) for row in rows]
        self.by_key: dict[Any, list[tuple[Any, ...]]] = {}
        """Key -> (name, city, tier) of its rows, in their order."""
        for key, *rest in self._rows:
            self.by_key.setdefault(key, []).append(tuple(rest))
        self.renamed: str | None = None
        """`column` (city) or `table`."""
        self._connection: sqlite3.Connection | None = None
        self._slept_s = 0.0

    def rename(self, what: str | None) -> None:
        """Give `column` or `table` another name; None: give it back."""
        assert what in (None, "column", "table"), what
        connection = self._sqlite()
        if self.renamed == "table":
            connection.execute(f"ALTER TABLE {_AWAY} RENAME TO customer")
        elif self.renamed == "column":
            connection.execute(f"ALTER TABLE customer RENAME COLUMN {_AWAY} TO city")
        if what == "table":
            connection.execute(f"ALTER TABLE customer RENAME TO {_AWAY}")
        elif what == "column":
            connection.execute(f"ALTER TABLE customer RENAME COLUMN city TO {_AWAY}")
        self.renamed = what

    def refuse_renamed(self) -> None:
        """Raises `Failed` if the reference lookup's statement names what is not there."""
        if self.renamed == "table":
            raise Failed(1146, "Table 'customer' doesn't exist")
        if self.renamed == "column":
            raise Failed(1054, "Unknown column 'c.city' in 'SELECT'")

    def select(self, sql: str, args: Sequence[Any] | None) -> tuple[list[tuple[Any, ...]], int]:
        """All rows, and how long the statement sleeps (ms). Raises `Failed`."""
        self._slept_s = 0.0
        text = sql.replace("%s", "?").replace("%%", "%") if args is not None else sql
        try:
            rows = self._sqlite().execute(text, tuple(args or ())).fetchall()
        except sqlite3.Error as error:
            raise Failed(_code_of(error), f"{error}: {sql}; at level sim the database is SQLite") from error
        return rows, round(self._slept_s * _MS)

    def _sqlite(self) -> sqlite3.Connection:
        """Made when first needed: most runs need none."""
        if self._connection is None:
            self._connection = connection = sqlite3.connect(":memory:", isolation_level=None)
            connection.create_function("SLEEP", 1, self._sleep)
            connection.create_function("REPEAT", 2, lambda text, times: text * times)
            connection.execute(
                "CREATE TABLE customer (n INTEGER PRIMARY KEY, k INTEGER, name TEXT, city TEXT, tier INT)"
            )
            connection.executemany(
                "INSERT INTO customer (k, name, city, tier) VALUES (?, ?, ?, ?)", self._rows
            )
        return self._connection

    def _sleep(self, seconds: float) -> int:
        self._slept_s += float(seconds)
        return 0


def _code_of(error: sqlite3.Error) -> int:
    text = str(error)
    if "no such column" in text:
        return 1054
    return 1146 if "no such table" in text else 1064
