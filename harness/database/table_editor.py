"""A hand on a run's tables between the run and their reading: it changes rows behind the harness's back.

Answers to a saboteur with root's password. Canaries and acceptance tests use it to show that the verdict rests on the
tables themselves. Invariant: a change touches the one table that is named; the trigger that fills `audit` does not see
it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from harness.database.driver import Cursor
from harness.database.endpoint import KeptConnection

STRANGER: Final = 987_654_321
"""The record of an added row, which no source sends."""
ALTERED: Final = '"altered by hand"'
FAR_AWAY: Final = 1000
"""Added to the subtask of a doubled row where a key refuses the row itself."""
_DUPLICATE: Final = 1062


@dataclass(frozen=True, slots=True, kw_only=True)
class TouchedRow:
    """The row that a hand changed."""

    id: int
    j: int | None
    """None in `dead_letter`."""


class TableEditor(Protocol):
    """Changes `output`, `audit` or `dead_letter` at its first row. Raises LookupError if there is none."""

    def delete(self, table: str) -> TouchedRow:
        """Takes the first row away."""

    def double(self, table: str) -> TouchedRow:
        """Writes the first row again; with a key, as a row of another subtask."""

    def alter(self, table: str) -> TouchedRow:
        """Overwrites the value (or the error) of the first row."""

    def swap(self, table: str) -> tuple[TouchedRow, TouchedRow]:
        """Lets the first row and the last one of its subtask, of another record, change places."""

    def add(self, table: str) -> TouchedRow:
        """Adds a row of record `STRANGER`."""

    def hide(self, table: str) -> None:
        """Renames the table, so that it cannot be read."""


class SqlTableHand:
    """The hand on a real database; `root` is root's connection to the run's own database."""

    def __init__(self, root: KeptConnection) -> None:
        self._root = root

    def delete(self, table: str) -> TouchedRow:
        with self._cursor() as cursor:
            seq, touched = _first(cursor, table)
            cursor.execute(f"DELETE FROM {table} WHERE seq = %s", (seq,))
        return touched

    def double(self, table: str) -> TouchedRow:
        columns = "id, error, epoch, token" if table == "dead_letter" else "id, j, v, epoch, token"
        again = f"INSERT INTO {table} (subtask, {columns}) SELECT subtask + %s, {columns} FROM {table} WHERE seq = %s"
        with self._cursor() as cursor:
            seq, touched = _first(cursor, table)
            try:
                cursor.execute(again, (0, seq))
            except Exception as error:
                if error.args[:1] != (_DUPLICATE,):
                    raise
                cursor.execute(again, (FAR_AWAY, seq))
        return touched

    def alter(self, table: str) -> TouchedRow:
        column = "error" if table == "dead_letter" else "v"
        with self._cursor() as cursor:
            seq, touched = _first(cursor, table)
            cursor.execute(f"UPDATE {table} SET {column} = %s WHERE seq = %s", (ALTERED, seq))
        return touched

    def swap(self, table: str) -> tuple[TouchedRow, TouchedRow]:
        with self._cursor() as cursor:
            first, touched = _first(cursor, table)
            of_subtask = f"(SELECT subtask FROM {table} WHERE seq = {int(first)})"
            last, other = _first(
                cursor, table, f"WHERE subtask = {of_subtask} AND id <> {touched.id}", "DESC"
            )
            move = f"UPDATE {table} SET seq = %s WHERE seq = %s"
            for places in ((-1, first), (first, last), (last, -1)):
                cursor.execute(move, places)
        return touched, other

    def add(self, table: str) -> TouchedRow:
        columns = "error" if table == "dead_letter" else "v, j"
        values = "%s" if table == "dead_letter" else "%s, 0"
        with self._cursor() as cursor:
            cursor.execute(
                f"INSERT INTO {table} (subtask, id, epoch, token, {columns}) VALUES (0, %s, 1, 1, {values})",
                (STRANGER, ALTERED),
            )
        return TouchedRow(id=STRANGER, j=None if table == "dead_letter" else 0)

    def hide(self, table: str) -> None:
        with self._cursor() as cursor:
            cursor.execute(f"RENAME TABLE {table} TO {table}_hidden")

    @contextmanager
    def _cursor(self) -> Iterator[Cursor]:
        connection = self._root.opened()
        with connection.cursor() as cursor:
            cursor.execute("DROP TRIGGER IF EXISTS audit_output")
            yield cursor
            connection.commit()


def _first(cursor: Cursor, table: str, where: str = "", order: str = "") -> tuple[int, TouchedRow]:
    """The `seq` and the name of the first row, or with `order` `DESC` of the last one."""
    j = "NULL" if table == "dead_letter" else "j"
    cursor.execute(f"SELECT seq, id, {j} FROM {table} {where} ORDER BY seq {order} LIMIT 1")
    row = cursor.fetchone()
    if row is None:
        raise LookupError(f"the table {table} has no such row")
    return row[0], TouchedRow(id=row[1], j=row[2])
