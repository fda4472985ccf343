"""The tables that are read after a run: the queries that read and count them, and their rows as values.

Invariant: needs no database client, so a real server and a simulated one are asked the same questions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import msgspec

ROWS_OF: Final[Mapping[str, str]] = {
    "audit": "SELECT seq, subtask, id, token, epoch, j, v FROM audit ORDER BY seq",
    "output": "SELECT seq, subtask, id, token, epoch, j, v FROM output ORDER BY seq",
    "dead_letter": "SELECT seq, subtask, id, token, epoch, NULL, error FROM dead_letter ORDER BY seq",
}
"""For each table, in the order of reading: the query of its rows, as `StoredRow` has them."""
COUNT_OF: Final[Mapping[str, str]] = {
    "audit": "SELECT COUNT(*) FROM audit",
    "output": "SELECT COUNT(*) FROM output",
    "dead_letter": "SELECT COUNT(*) FROM dead_letter",
}

_COUNTS: Final[Mapping[str, str]] = {
    "rows": COUNT_OF["output"],
    "records": "SELECT COUNT(DISTINCT id) FROM output",
    "doubled": "SELECT COUNT(*) FROM (SELECT id, j FROM output GROUP BY id, j HAVING COUNT(*) > 1) AS d",
    "epochs": "SELECT COUNT(*) FROM epoch",
    "dead_letters": COUNT_OF["dead_letter"],
}
"""The counts that are printed beside a verdict."""
_DISORDERED: Final = (
    # A subtask's source order is the order of its ids; a later row must not have a smaller one.
    "SELECT COUNT(*) FROM (SELECT id, MAX(id) OVER (PARTITION BY subtask ORDER BY seq"
    " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_it FROM output) AS w WHERE id < before_it"
)
"""Counted only where the rows' order is claimed to be that of the source."""


def counting(*, ordered: bool) -> Mapping[str, str]:
    """The queries of the counts by name; `ordered`: the rows' order is claimed to be that of the source."""
    return {**_COUNTS, "disordered": _DISORDERED} if ordered else _COUNTS


class StoredRow(msgspec.Struct, frozen=True, gc=False):
    """One row of `output`, `audit` or `dead_letter`, as it is in the database."""

    seq: int
    """Orders the rows. A subtask has one writer at a time, so for its rows it is the order of writing."""
    subtask: int
    id: int
    token: int
    """The attempt that wrote it."""
    epoch: int
    j: int | None
    """None in `dead_letter`."""
    text: str
    """The output's value as JSON, or the dead letter's error."""


def stored_value(text: str) -> object:
    """The value that a sink stored as `text`; text that is no JSON becomes an object that no output can be."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, TypeError):
        pass
    try:
        # The sink's encoder writes NaN and Infinity; a history has null for them, in the `out` too.
        return msgspec.json.decode(msgspec.json.encode(json.loads(text)))
    except (ValueError, TypeError, OverflowError, RecursionError):
        return {"not JSON": text}
