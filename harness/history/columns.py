"""The columnar form of a history (Arrow IPC `.arrow`, Parquet `.parquet`): its columns, and how it is written.

One row an event, in the order of the text form; the header is a line of JSON in the schema's metadata. A cell that
is null is a field that is absent. Invariant: lossless. What a column cannot hold (an integer beyond 64 bits, half a
character) is written as the event's whole line into the column `line`, and then the row has no other cell.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from harness.history.event import Event
from harness.history.header import Header
from harness.history.write import event_json, header_line, json_text, line_of

__all__ = ["COLUMNS", "HEADER_KEY", "JSON_COLUMNS", "ROWS", "write_columns"]

HEADER_KEY = b"floodmark.history"
"""Of the schema's metadata."""

ROWS = 1 << 14
"""Rows of a record batch, or of a row group: what a reader has in memory at a time."""
_INT = 1 << 63

_WHOLE = ("n", "t", "mail", "s", "a", "from", "c", "pos", "try", "token", "seq", "j", "ts", "w", "id")
_FLAGS = ("final", "stalls", "ts_null", "w_end")
_TEXTS = ("k", "thread", "id_text", "r", "f", "phase")
"""Texts as they are."""
JSON_COLUMNS = ("key", "expect", "v", "nonce", "error", "elements", "evidence", "why")
"""Texts that are JSON: what may be any value, list or object."""

COLUMNS: Mapping[str, pa.DataType] = {
    **dict.fromkeys(_WHOLE, pa.int64()),
    **dict.fromkeys(_FLAGS, pa.bool_()),
    **dict.fromkeys((*_TEXTS, *JSON_COLUMNS, "line"), pa.string()),
}
"""All columns there are. `n`, `t` and `k` must be in a file, and what the kinds of its events require.

`id_text` is an id that is a string, `w_end` the final watermark, `ts_null` a `ts` that is given and null. A
`start` has its `from`, which is null where the cell is.
"""


class _Table(Protocol):
    def write_batch(self, batch: pa.RecordBatch, /) -> object: ...


def write_columns(path: Path, header: Header, events: Iterable[Event]) -> None:
    """Write a whole history; the name's end chooses the form (`.parquet`, else Arrow)."""
    schema = pa.schema(list(COLUMNS.items()), metadata={HEADER_KEY: header_line(header).strip()})
    rest = iter(events)
    with _opened(path, schema) as table:
        while batch := list(islice(rest, ROWS)):
            rows = list(map(_cells, batch))
            table.write_batch(pa.RecordBatch.from_pylist(rows, schema=schema))


@contextmanager
def _opened(path: Path, schema: pa.Schema) -> Iterator[_Table]:
    if path.suffix == ".parquet":
        with pq.ParquetWriter(path, schema, compression="zstd") as table:
            yield table
    else:
        packed = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema, options=packed) as table:
            yield table


def _cells(event: Event) -> dict[str, Any]:
    cells: dict[str, Any] = {}
    for name, value in event_json(event).items():
        if name in JSON_COLUMNS:
            cells[name] = _canonical(value)
        elif type(value) is int and not -_INT <= value < _INT:
            return _as_line(event)
        elif isinstance(value, str):
            if not value.isascii() and not _is_whole(value):
                return _as_line(event)
            cells |= {"w_end": True} if name == "w" else {"id_text" if name == "id" else name: value}
        elif value is None and name == "ts":
            cells["ts_null"] = True
        else:
            cells[name] = value
    return cells


def _as_line(event: Event) -> dict[str, Any]:
    return {"line": line_of(event).decode().strip()}


def _is_whole(text: str) -> bool:
    """Whether it has no half characters, which UTF-8 cannot hold."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _canonical(value: Any) -> str:
    """As the fast encoder writes it, where that loses nothing: what reads it then knows it at once."""
    try:
        text = msgspec.json.encode(value)
        if b"null" not in text or repr(json.loads(text)) == repr(value):
            return text.decode()
    except (ValueError, RecursionError):
        pass
    return json_text(value)
