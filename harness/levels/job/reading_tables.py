"""What a reading of a job's tables notes: the rows of its table and of its dead letters, as SQL read them.

Invariant: all events of a reading are noted at the place of the log of its snapshot, so that no change stands among
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.levels.job.job_database import TableReading
from harness.levels.job.job_file import SinkTable
from harness.levels.job.recording import JobRecording
from harness.levels.job.sink_rows import SinkColumns, id_text
from harness.system.errors import UsageError


def note_tables(
    recording: JobRecording,
    snapshot: TableReading,
    number: int,
    *,
    sink: SinkTable,
    columns: SinkColumns | None,
    offered: Mapping[str, Any],
) -> None:
    """Notes reading `number`; a table that does not exist, or was dropped, has no rows.

    `columns`: None if the table was never there; `offered`: the offered ids by their text.
    """
    if columns is not None:
        for row in snapshot.tables.get(sink.table, ()):
            recording.note("table", at=snapshot.at, reading=number, **columns.row(row).told())
    rows = snapshot.counts.get(sink.table, 0)
    recording.note("read", at=snapshot.at, reading=number, of="table", rows=rows)
    if not sink.dead_letters or sink.dead_letters not in snapshot.tables:
        return
    for row in snapshot.tables[sink.dead_letters]:
        recording.note("dead", at=snapshot.at, reading=number, **_dead(row, sink.id, offered))
    rows = snapshot.counts[sink.dead_letters]
    recording.note("read", at=snapshot.at, reading=number, of="dead", rows=rows)


def refuse_columns(table: str, wanted: Sequence[str], types: Mapping[str, str]) -> None:
    """Raises UsageError if the table lacks a column that the job file names."""
    by_name = {name.lower(): name for name in types}
    lacking = [name for name in wanted if name.lower() not in by_name]
    if lacking:
        message = f"table {table} has no column {' and no column '.join(lacking)}; its columns are {', '.join(types)}"
        raise UsageError(message, fix="name its columns in [sink]: id, key, values, j")


def _dead(row: Mapping[str, Any], columns: Sequence[str], offered: Mapping[str, Any]) -> dict[str, Any]:
    parts = [row.get(column) for column in columns]
    told = parts[0] if len(parts) == 1 else parts
    found = offered.get(id_text(told), told)
    error = row.get("error")
    return {"id": found, **({} if error is None else {"error": str(error)})}
