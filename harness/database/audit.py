"""The audit: reads the run's tables and the server's counters from the database itself, past the proxy.

It shares neither code nor input with the checkers, so a disagreement shows that one of them is wrong. A table is read
in batches with a cursor on the server, so no second copy of a large one is held here. The server's connection counters
(`SHOW GLOBAL STATUS`) are lost in a restart; then there is no answer, never a wrong one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pymysql
from pymysql.cursors import SSCursor

from harness.database.endpoint import Endpoint, KeptConnection, connect
from harness.database.stored_tables import COUNT_OF, ROWS_OF, StoredRow, counting
from harness.system.errors import WorldError

_STATUS = (
    "SHOW GLOBAL STATUS WHERE Variable_name IN"
    " ('Connections', 'Max_used_connections', 'Threads_connected', 'Uptime')"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCounts:
    """Connections opened, and the most open at once, between two readings; includes the harness's own."""

    opened: int
    """Connections opened."""
    at_once: int
    """The most connections open at a time, above those open at the first reading."""


class ServerCounter:
    """Counts connections from its creation on. Raises WorldError if the server does not answer then."""

    def __init__(self, root: Endpoint) -> None:
        self._root = root
        try:
            self._before = _status(root, flush=True)
        except (pymysql.MySQLError, OSError) as error:
            message = f"the server at {root.host}:{root.port} did not answer SHOW GLOBAL STATUS: {error}"
            raise WorldError(message, fix="floodmark doctor shows what the world lacks") from error

    def read(self) -> ServerCounts | None:
        """The counts up to now; None if the server was restarted in between or does not answer."""
        try:
            now = _status(self._root, flush=False)
        except (pymysql.MySQLError, OSError):
            return None
        if now["Uptime"] < self._before["Uptime"] or now["Connections"] < self._before["Connections"]:
            return None
        return ServerCounts(
            opened=now["Connections"] - self._before["Connections"],
            at_once=now["Max_used_connections"] - self._before["Threads_connected"],
        )


def _status(root: Endpoint, *, flush: bool) -> dict[str, int]:
    with closing(connect(root)) as connection, connection.cursor() as cursor:
        if flush:  # else Max_used_connections would cover the server's whole life
            cursor.execute("FLUSH STATUS")
        cursor.execute(_STATUS)
        return {name: int(value) for name, value in cursor.fetchall()}


_READING_S = 60.0
"""Limit of one answer while tables are read; they may have millions of rows."""
_BATCH = 1000
"""Rows fetched at once."""


def reading(root: Endpoint) -> KeptConnection:
    """The connection on which the tables of a run are read after it: all as of one moment, unless it is lost."""
    return KeptConnection(root, statement_s=_READING_S)


def read_table(tables: KeptConnection, table: str, take: Callable[[StoredRow], None]) -> int:
    """Calls `take` with each row of `table` by `seq`; returns how many rows the database counts in it.

    Raises pymysql's errors; some rows may have been taken by then.
    """
    connection = tables.opened()
    with connection.cursor() as cursor:
        cursor.execute(COUNT_OF[table])
        count = int(cursor.fetchone()[0])
    with connection.cursor(SSCursor) as cursor:
        cursor.execute(ROWS_OF[table])
        for row in batched(cursor):
            take(StoredRow(*row))
    return count


def batched(cursor: SSCursor) -> Iterator[tuple[Any, ...]]:
    """The rows that are left of a cursor on the server."""
    while rows := cursor.fetchmany(_BATCH):
        yield from rows


def count_rows(tables: KeptConnection, *, ordered: bool) -> dict[str, int]:
    """What SQL counts in the tables; a count whose table cannot be read is left out. Raises pymysql's errors."""
    counts: dict[str, int] = {}
    with tables.opened().cursor() as cursor:
        for name, query in counting(ordered=ordered).items():
            try:
                cursor.execute(query)
            except pymysql.ProgrammingError:
                continue  # there is no such table any more
            counts[name] = int(cursor.fetchone()[0])
    return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRow:
    """One committed epoch."""

    subtask: int
    epoch: int
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedProgress:
    """What was committed and completed, as the database has it."""

    epochs: tuple[EpochRow, ...]
    completed: tuple[int, ...]
    """The checkpoints that the coordinator completed, if the run has one."""


def read_progress(tables: KeptConnection) -> CommittedProgress:
    """Reads the tables `epoch` and `completed`. Raises pymysql's errors."""
    with tables.opened().cursor() as cursor:
        cursor.execute("SELECT subtask, epoch, token FROM epoch ORDER BY subtask, epoch")
        epochs = tuple(EpochRow(subtask=s, epoch=c, token=token) for s, c, token in cursor.fetchall())
        cursor.execute("SELECT epoch FROM completed ORDER BY epoch")
        completed = tuple(epoch for (epoch,) in cursor.fetchall())
    return CommittedProgress(epochs=epochs, completed=completed)
