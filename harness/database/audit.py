"""The audit: what the database itself shows after a run, read directly and counted by SQL.

Invariant: it shares nothing with the checkers, neither code nor input; the two can disagree, and then one of
them is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.database.schema import connect
from harness.runs.plan import Endpoint

__all__ = ["AuditRow", "EpochRow", "TableAudit", "read_audit"]

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
