"""The columnar form of a history (Arrow IPC `.arrow`, Parquet `.parquet`): its columns, its writer, its reader.

Implements "Columns" of `docs/reference/history.md`. One row per event, in the order of the text form; row r, counted
from 0, is line r + 2. The header is a line of JSON in the schema's metadata; a null cell is an absent field.
Lossless: an event that the columns cannot hold (an integer beyond 64 bits, an unpaired surrogate) is stored as text
in the column `line`, with all other cells null. Every row is read as a line of text, so both forms obey the same
rules; a row without a text form becomes a line with the reason in `odd`. Memory: one record batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import UsageError
from harness.history.event import Event
from harness.history.header import Header
from harness.history.strict_json import Loose, strictly
from harness.history.text import CutOff, Line, event_json, header_line, json_text, line_of

__all__ = ["COLUMNS", "Rows", "column_lines", "line_of_row", "open_rows", "table_of", "write_columns"]

HEADER_KEY = b"floodmark.history"
"""The key of the header in the schema's metadata."""

ROWS = 1 << 14
"""Rows of a record batch or row group, which a reader holds in memory."""
_INT = 1 << 63

_WHOLE = ("n", "t", "mail", "s", "a", "from", "c", "pos", "try", "token", "seq", "j", "ts", "w", "id",
          "ver", "rows", "part", "at")  # fmt: skip
_FLAGS = ("final", "stalls", "ts_null", "w_end", "retry")
_TEXTS = ("k", "thread", "id_text", "r", "f", "phase", "by", "table")
"""Columns of plain text."""
JSON_COLUMNS = ("key", "expect", "v", "nonce", "error", "elements", "evidence", "why", "can", "of", "to")
"""Columns of JSON text, for fields that may hold any value, a list or an object."""

COLUMNS: Mapping[str, pa.DataType] = {
    **dict.fromkeys(_WHOLE, pa.int64()),
    **dict.fromkeys(_FLAGS, pa.bool_()),
    **dict.fromkeys((*_TEXTS, *JSON_COLUMNS, "line"), pa.string()),
}
"""All columns. A file must have `n`, `t`, `k` and the columns that the kinds of its events require.

`id_text` holds an id that is a string, `w_end` marks the final watermark, `ts_null` a `ts` that is present and
null. A `start` always has `from`; a null cell is a null `from`.
"""


class _Table(Protocol):
    def write_batch(self, batch: pa.RecordBatch, /) -> object: ...


def write_columns(path: Path, header: Header, events: Iterable[Event]) -> None:
    """Write a whole history: Parquet if the suffix is `.parquet`, else Arrow IPC."""
    schema = _schema_of(header)
    with _opened_columns(path, schema) as table:
        for batch in _packed(events, schema):
            table.write_batch(batch)


def table_of(header: Header, events: Iterable[Event]) -> pa.Table:
    """A whole history as one table in memory, the header in its schema's metadata."""
    schema = _schema_of(header)
    return pa.Table.from_batches(_packed(events, schema), schema=schema)


def _schema_of(header: Header) -> pa.Schema:
    return pa.schema(list(COLUMNS.items()), metadata={HEADER_KEY: header_line(header).strip()})


def _packed(events: Iterable[Event], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    rest = iter(events)
    while batch := list(islice(rest, ROWS)):
        yield pa.RecordBatch.from_pylist(list(map(_cells, batch)), schema=schema)


@contextmanager
def _opened_columns(path: Path, schema: pa.Schema) -> Iterator[_Table]:
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
    """Whether it has no unpaired surrogate, which UTF-8 cannot encode."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _canonical(value: Any) -> str:
    """The JSON text of msgspec's encoder if it is lossless: `FastColumns` recognises that form."""
    try:
        text = msgspec.json.encode(value)
        if b"null" not in text or repr(json.loads(text)) == repr(value):
            return text.decode()
    except (ValueError, RecursionError):
        pass
    return json_text(value)


_WHITE = " \t\r\n"
_ASIDE = {"id_text": "id", "ts_null": "ts", "w_end": "w"}
"""Columns that hold a value which the named field's own column cannot."""
_REQUIRED = ("n", "t", "k")
_TEXT_COLUMNS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)


class Rows(NamedTuple):
    """A columnar file: its header line, and its record batches, each with all of `COLUMNS` in order."""

    header: bytes
    size: int
    """Bytes of the file."""
    total: int
    """The number of rows; for Arrow IPC an upper bound."""
    batches: Iterator[pa.RecordBatch]


def column_lines(path: Path) -> Iterator[Line]:
    """The lines of `path`; raises UsageError if it cannot be read, `CutOff` if it is damaged."""
    rows = open_rows(path)
    yield Line(number=1, raw=rows.header, ended=True)
    number = 2
    for batch in rows.batches:
        for row in batch.to_pylist():
            yield line_of_row(number, row)
            number += 1


def open_rows(path: Path) -> Rows:
    """Open a file and check its columns; raises as `column_lines` does, here and while it is iterated."""
    batches = _batches(path)
    schema, total = next(batches)
    with _makes_sense():
        header = (schema.metadata or {}).get(HEADER_KEY)
        complaints = list(_complaints(schema))
    if complaints:
        raise CutOff("; ".join(complaints))
    if header is None:
        raise CutOff(f"the schema's metadata has no `{HEADER_KEY.decode()}`, the header")
    return Rows(header=header, size=path.stat().st_size, total=max(1, total), batches=batches)


def _batches(path: Path) -> Iterator[Any]:
    """Yields the schema and the number of rows, then the record batches; raises `CutOff` if Arrow fails."""
    with _readable(path), _makes_sense(), path.open("rb") as file:
        if path.suffix == ".parquet":
            table = pq.ParquetFile(file)
            yield table.schema_arrow, table.metadata.num_rows
            parts: Iterable[pa.RecordBatch] = table.iter_batches(batch_size=ROWS)
        else:
            stream = pa.ipc.open_file(file)
            yield stream.schema, stream.num_record_batches * ROWS
            parts = map(stream.get_batch, range(stream.num_record_batches))
        for part in parts:
            part.validate(full=True)
            for start in range(0, part.num_rows, ROWS):
                yield _all_columns(part.slice(start, ROWS))


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        with closing(path.open("rb")) as file:
            file.read(1)
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror or error}", fix="name a history file that you may read"
        ) from error
    yield


@contextmanager
def _makes_sense() -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, TypeError, EOFError) as error:
        said = str(error).partition("\n")[0]
        raise CutOff(f"the columns are damaged: {said}") from error


def _complaints(schema: pa.Schema) -> Iterator[str]:
    for name in _REQUIRED:
        if name not in schema.names:
            yield f"there is no column `{name}`"
    for name, wanted in COLUMNS.items():
        found = schema.get_all_field_indices(name)
        if len(found) > 1:
            yield f"there are {len(found)} columns `{name}`"
        elif found and not _holds(schema.types[found[0]], wanted):
            yield f"the column `{name}` is {schema.types[found[0]]}, but must be {wanted}"


def _holds(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a column of type `given` can be read as one of type `wanted`."""
    if pa.types.is_dictionary(given):
        given = given.value_type
    if pa.types.is_null(given) or given == wanted:
        return True
    alike = (
        (pa.types.is_integer,)
        if pa.types.is_integer(wanted)
        else _TEXT_COLUMNS
        if pa.types.is_string(wanted)
        else ()
    )
    return any(is_one(given) for is_one in alike)


def _all_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    arrays = []
    for name, wanted in COLUMNS.items():
        at = batch.schema.get_field_index(name)
        arrays.append(pa.nulls(batch.num_rows, wanted) if at < 0 else batch.column(at).cast(wanted))
    return pa.RecordBatch.from_arrays(arrays, names=list(COLUMNS))


def line_of_row(number: int, row: Mapping[str, Any]) -> Line:
    """The text form of a row; if it has none, a Line with the reason in `odd`."""
    cells = {name: cell for name, cell in row.items() if cell is not None}
    told = json.dumps(cells)
    try:
        text = _text(cells)
    except ValueError as odd:
        return Line(number=number, raw=told.encode(), ended=True, odd=str(odd))
    return Line(number=number, raw=text.encode(), ended=True)


def _text(cells: dict[str, Any]) -> str:
    """The text form; raises ValueError with the reason if there is none."""
    if "line" in cells:
        if len(cells) > 1:
            raise ValueError("the row has a `line`, and another cell beside it")
        return _json("line", cells["line"])
    for aside, name in _ASIDE.items():
        if cells.get(aside) and name in cells:
            raise ValueError(f"the row has both `{name}` and `{aside}`")
    fields = [f"{json.dumps(name)}:{text}" for name, text in _fields(cells)]
    return "{" + ",".join(fields) + "}"


def _fields(cells: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, cell in cells.items():
        if name in JSON_COLUMNS:
            yield name, _json(name, cell)
        elif name == "id_text":
            yield "id", json.dumps(cell)
        elif name in _ASIDE:
            if cell:
                yield _ASIDE[name], "null" if name == "ts_null" else '"end"'
        else:
            yield name, json.dumps(cell)
    if cells.get("k") == "start" and "from" not in cells:
        yield "from", "null"


def _json(name: str, cell: str) -> str:
    """The stripped JSON text of a cell; raises ValueError if it is not strict JSON."""
    stripped = cell.strip(_WHITE)
    value = strictly(stripped.encode())
    if isinstance(value, Loose):
        raise ValueError(f"`{name}` of the row: {value.say.replace('the line', 'it')}")  # noqa: TRY004
    return stripped
