"""The audit: reads the run's tables and the server's counters from the database itself, past the proxy.

It shares neither code nor input with the checkers, so a disagreement shows that one of them is wrong. The
server's connection counters (`SHOW GLOBAL STATUS`) are lost in a restart; then there is no answer, never a
wrong one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pymysql

from harness.database.endpoint import Endpoint, connect
from harness.errors import WorldError

__all__ = ["AuditRow", "EpochRow", "ServerCounter", "ServerCounts", "TableAudit", "read_audit"]

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


_COUNTS = {
    "rows": "SELECT COUNT(*) FROM output",
    "records": "SELECT COUNT(DISTINCT id) FROM output",
    "doubled": "SELECT COUNT(*) FROM (SELECT id, j FROM output GROUP BY id, j HAVING COUNT(*) > 1) AS d",
    "epochs": "SELECT COUNT(*) FROM epoch",
    "dead_letters": "SELECT COUNT(*) FROM dead_letter",
}
_DISORDERED = (
    # A subtask's source order is the order of its ids; a later row must not have a smaller one.
    "SELECT COUNT(*) FROM (SELECT id, MAX(id) OVER (PARTITION BY subtask ORDER BY seq"
    " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_it FROM output) AS w WHERE id < before_it"
)
"""Only for ordered mode; in unordered mode rows may change places between two watermarks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """One row of the audit log; `seq` is the order in which the database wrote the rows."""

    seq: int
    subtask: int
    id: int
    j: int
    value: Any
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRow:
    """One committed epoch."""

    subtask: int
    epoch: int
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAudit:
    """The contents of a run's tables."""

    rows: tuple[AuditRow, ...]
    epochs: tuple[EpochRow, ...]
    completed: tuple[int, ...]
    """The checkpoints that the coordinator completed, if the run has one."""
    counts: Mapping[str, int]


def read_audit(root: Endpoint, *, offered: int, ordered: bool) -> TableAudit:
    """Read everything; `offered`: how many records have a row to be enriched with.

    Raises pymysql's errors.
    """
    with connect(root) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT seq, subtask, id, j, v, token FROM audit ORDER BY seq")
        rows = tuple(
            AuditRow(seq=seq, subtask=subtask, id=id_, j=j, value=json.loads(v), token=token)
            for seq, subtask, id_, j, v, token in cursor.fetchall()
        )
        cursor.execute("SELECT subtask, epoch, token FROM epoch ORDER BY subtask, epoch")
        epochs = tuple(EpochRow(subtask=s, epoch=c, token=token) for s, c, token in cursor.fetchall())
        cursor.execute("SELECT epoch FROM completed ORDER BY epoch")
        completed = tuple(epoch for (epoch,) in cursor.fetchall())
        counts = {"offered": offered}
        queries = {**_COUNTS, "disordered": _DISORDERED} if ordered else _COUNTS
        for name, query in queries.items():
            cursor.execute(query)
            counts[name] = int(cursor.fetchone()[0])
        counts["missing"] = max(0, offered - counts["records"] - counts["dead_letters"])
    return TableAudit(rows=rows, epochs=epochs, completed=completed, counts=counts)
