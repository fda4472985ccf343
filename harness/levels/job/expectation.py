"""What a job's table must hold: by the user's function, by the calm twin's table, or nothing.

Answers to `harness.engine.expectation` for whole jobs. Invariant: a job is never judged by its own rows in the run with
faults; what the function states is brought into the form that the table's columns have.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from typing import Any, Final

from harness.database.endpoint import KeptConnection
from harness.database.own_tables import OwnTableRows
from harness.levels.job.finished import ExpectedRows
from harness.levels.job.ground import JobGround
from harness.levels.job.order import JobOrder
from harness.levels.job.records import JobInput, SourceRecord
from harness.levels.job.sink_rows import id_text, told_value
from harness.sut.registry import load_attribute
from harness.system.errors import SutError

CALM: Final = "calm"
NO_VALUES: Final = "none"
_FIX: Final = (
    "write `def expected(record, rows): ...`, which returns a list of dicts by column, or of lists in the order of"
    " `values`"
)


def expect_from(order: JobOrder) -> str:
    """The header's `expect_from`."""
    name = order.job.claims.expected
    return name if name in {CALM, NO_VALUES} else "given"


def stated(order: JobOrder, given: JobInput, ground: JobGround) -> ExpectedRows:
    """What the user's function states of each record. Raises SutError if it cannot be used."""
    name = order.job.claims.expected
    function = load_attribute(name, option="claims.expected", kind="FUNCTION")
    with KeptConnection(ground.database.root) as kept:
        rows = _rows_of(given, OwnTableRows(kept.opened()))
    return {
        id_text(record.id): _values(name, function, record, rows, order.job.sink.values)
        for record in given.records
        if not record.fails
    }


def _rows_of(given: JobInput, tables: OwnTableRows) -> Mapping[Any, Sequence[Mapping[str, Any]]]:
    found = tables.by_key(record.key for record in given.records)
    return {str(key): rows for key, rows in found.items()}


def _values(
    name: str,
    function: Any,
    record: SourceRecord,
    rows: Mapping[Any, Sequence[Mapping[str, Any]]],
    columns: Sequence[str],
) -> list[list[Any]]:
    try:
        with redirect_stdout(sys.stderr):  # standard output is for the results of a command
            told = function(dict(record.body), list(rows.get(str(record.key), ())))
        told = told_value(json.loads(json.dumps(told, allow_nan=False, default=_plain)))
    except (Exception, SystemExit) as error:
        message = f"claims.expected {name} fails for record {record.id}: {type(error).__name__}: {error}"
        raise SutError(message, fix=_FIX) from error
    if not isinstance(told, list):
        message = f"claims.expected {name} returned {type(told).__name__} for record {record.id}"
        raise SutError(message, fix=_FIX)
    return [_row(name, record, one, columns) for one in told]


def _plain(value: Any) -> Any:
    """A value that JSON does not have: a Decimal of a row, a time."""
    return told_value(value)


def _row(name: str, record: SourceRecord, told: Any, columns: Sequence[str]) -> list[Any]:
    match told:
        case dict() if all(column in told for column in columns):
            return [told[column] for column in columns]
        case list() if len(told) == len(columns):
            return list(told)
        case _ if len(columns) == 1 and not isinstance(told, dict | list):
            return [told]
    message = (
        f"claims.expected {name} states {told!r} for record {record.id}, and sink.values is {list(columns)}"
    )
    raise SutError(message, fix=_FIX)
