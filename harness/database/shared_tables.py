"""What attempts on different hosts share, in tables of the run's database: checkpoint parts, and marks of acts.

Answers to a checkpoint folder on shared storage, and to marker files made with O_EXCL. They are reached directly, not
over the links on which faults act. Invariants: a part is under its name whole or not at all; a mark is stored before
its effect.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import pymysql

from harness.database.endpoint import Endpoint, KeptConnection
from harness.history.event import AttemptEvent
from harness.history.notes import AttemptNote, Line
from harness.history.recorder import decode_line, encode_line
from harness.system.clock import Deadline, pause

_MARK_S = 5.0
"""How long a mark is tried again; then the server is down, and the attempt goes on without."""
_AGAIN_S = 0.1
_STATEMENT_S = 5.0
_ERRORS = (pymysql.MySQLError, OSError)


class TableFiles:
    """The parts of one subtask in the table `store_file`; implements `Files`. Mutable: keeps its connection."""

    def __init__(self, endpoint: Endpoint, *, subtask: int) -> None:
        self._kept = KeptConnection(endpoint, statement_s=_STATEMENT_S)
        self._subtask = subtask

    def write(self, name: str, data: bytes) -> None:
        self._do("REPLACE INTO store_file (subtask, name, data) VALUES (%s, %s, %s)", name, data)

    def read(self, name: str) -> bytes:
        rows = self._do("SELECT data FROM store_file WHERE subtask = %s AND name = %s", name)
        if not rows:
            raise FileNotFoundError(name)
        return bytes(rows[0][0])

    def cut(self, name: str, size: int) -> None:
        self.write(name, self.read(name)[:size])

    def remove(self, name: str) -> None:
        self._do("DELETE FROM store_file WHERE subtask = %s AND name = %s", name)

    def names(self) -> list[str]:
        rows = self._do("SELECT name FROM store_file WHERE subtask = %s ORDER BY name")
        return [str(name) for (name,) in rows]

    def _do(self, statement: str, *values: object) -> Any:
        """One statement of its own. Raises OSError, as a disk does that fails."""
        try:
            return _autonomous(self._kept, statement, (self._subtask, *values))
        except pymysql.MySQLError as error:
            raise OSError(f"the table of checkpoints cannot be used: {error}") from error


class MarkTable:
    """The marks of one subtask's attempts in the table `mark`. Mutable: keeps its connection, counts its failures.

    `kinds`: the kinds of lines that are marked; all others are ignored.
    """

    def __init__(self, endpoint: Endpoint, *, subtask: int, kinds: Collection[str]) -> None:
        self._kept = KeptConnection(endpoint, statement_s=_STATEMENT_S)
        self._subtask = subtask
        self._kinds = frozenset(kinds)
        self._has_begun = False

    def __call__(self, line: Line) -> None:
        """Stores the mark of a line, if its kind counts; of the records taken only the first."""
        kind = line.__struct_config__.tag
        if kind not in self._kinds or (kind == "in" and self._has_begun):
            return
        self._has_begun = self._has_begun or kind == "in"
        text = encode_line(line)
        deadline = Deadline(_MARK_S)
        while True:
            try:
                _autonomous(
                    self._kept, "INSERT INTO mark (subtask, line) VALUES (%s, %s)", (self._subtask, text)
                )
            except _ERRORS:
                if deadline.passed:
                    return
                pause(_AGAIN_S)
            else:
                return

    def lines(self, *, before: int) -> Iterator[Line]:
        """The marks of the attempts before that one, as they were stored. Raises pymysql's errors."""
        rows = _autonomous(
            self._kept, "SELECT line FROM mark WHERE subtask = %s ORDER BY seq", (self._subtask,)
        )
        for (text,) in rows:
            line = decode_line(text.encode())
            if isinstance(line, AttemptEvent | AttemptNote) and line.a < before:
                yield line


def _autonomous(kept: KeptConnection, statement: str, values: tuple[object, ...]) -> Any:
    """The rows of one statement in a transaction of its own."""
    connection = kept.opened()
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement, values)
            rows = cursor.fetchall()
        connection.commit()
    except _ERRORS:
        connection.close()
        raise
    return rows
