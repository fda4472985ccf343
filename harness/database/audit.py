"""The audit: what the database itself shows after a run, read past the proxy: its tables and its counters.

It shares neither code nor input with the checkers: if the two disagree, one of them is wrong. The server's
counts of connections (`SHOW GLOBAL STATUS`) are of one life of the server; if it was restarted meanwhile
there is no answer, never a wrong one.
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
    """Connections that a run made, and how many lived at once, between two moments; ours are among them."""

    opened: int
    """Connections that were made."""
    at_once: int
    """The most that there were at a time, above those that there were at the first moment."""


class ServerCounter:
    """Counts from the moment at which it is made. Raises WorldError if the server does not answer then."""

    def __init__(self, root: Endpoint) -> None:
        self._root = root
        try:
            self._before = _status(root, flush=True)
        except (pymysql.MySQLError, OSError) as error:
            message = f"the server at {root.host}:{root.port} does not tell its counters: {error}"
            raise WorldError(message, fix="floodmark doctor shows what the world lacks") from error

    def read(self) -> ServerCounts | None:
        """Up to now; None if the server was restarted meanwhile, or does not answer."""
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
        if flush:  # else the most at a time would be that of the server's whole life
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
    # Source order of a subtask is the order of its ids; later rows must not have smaller ones.
    "SELECT COUNT(*) FROM (SELECT id, MAX(id) OVER (PARTITION BY subtask ORDER BY seq"
    " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_it FROM output) AS w WHERE id < before_it"
)
"""Counted in ordered mode only: elsewhere rows may be in any order inside a segment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """One row of the audit log; `seq` is the order in which the database wrote them."""

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
    """What the tables of a run hold."""

    rows: tuple[AuditRow, ...]
    epochs: tuple[EpochRow, ...]
    completed: tuple[int, ...]
    """The checkpoints that the coordinator decided, where there is one."""
    counts: Mapping[str, int]


def read_audit(root: Endpoint, *, offered: int, ordered: bool) -> TableAudit:
    """Read it all; `offered` records have something to be enriched with. Raises pymysql's errors."""
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
