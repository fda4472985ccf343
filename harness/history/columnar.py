"""The columnar form of a history (Arrow IPC `.arrow`, Parquet `.parquet`): its columns, its writer, its reader.

Implements "Columns" of `docs/reference/history.md`. One row per event, in the order of the text form; row r, counted
from 0, is line r + 2. The header is a line of JSON in the schema's metadata; a null cell is an absent field.
Lossless: an event that the columns cannot hold (an integer beyond 64 bits, an unpaired surrogate) is stored as text
in the column `line`, with all other cells null. Rows are read as lines of text, some hundred at a time, so both forms
obey the same rules; a row without a text form becomes a line with the reason in `odd`. Memory: one record batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.history.event import Event
from harness.history.event_fields import ALL_CLAIMS, kinds_of
from harness.history.header import Header
from harness.history.strict_json import Loose, strictly
from harness.history.text import CutOff, Line, OnRead, event_json, header_line, json_text, line_of, parts_of
from harness.system.errors import UsageError
from harness.system.json_types import Json

HEADER_KEY = b"floodmark.history"
"""The key of the header in the schema's metadata."""

ROWS = 1 << 14
"""Rows of a record batch or row group, which a reader holds in memory."""
_INT = 1 << 63

_FEW = 1 << 8
"""Rows made into text at a time, whose events stay in the processor's cache while they are followed."""


def _columns() -> tuple[dict[str, pa.DataType], frozenset[str], dict[str, tuple[str, str | None]]]:
    """`COLUMNS`, `JSON_COLUMNS` and `_ASIDE` by the types of the fields of events."""
    kinds = kinds_of(ALL_CLAIMS)
    fields = {
        name: field for row in (*kinds.fields.values(), *kinds.ended.values()) for name, field in row.items()
    }
    found: dict[str, pa.DataType] = {}
    texts: dict[str, pa.DataType] = {"k": pa.string()}
    aside: dict[str, tuple[str, str | None]] = {}
    of_json = []
    for name, field in fields.items():
        match field.checks.schema:
            case {"type": "boolean"}:
                found[name] = pa.bool_()
            case {"type": "string"} | {"enum": _}:
                texts[name] = pa.string()
            case {"type": "integer"}:
                found[name] = pa.int64()
            case {"type": ["integer", "string"]}:
                found[name], texts[f"{name}_text"] = pa.int64(), pa.string()
                aside[f"{name}_text"] = (name, None)
            case {"type": ["integer", "null"]}:
                found[name] = pa.int64()
                if not field.required:
                    found[f"{name}_null"], aside[f"{name}_null"] = pa.bool_(), (name, "null")
            case {"anyOf": [{"type": "integer"}, {"const": word}]}:
                found[name], found[f"{name}_{word}"] = pa.int64(), pa.bool_()
                aside[f"{name}_{word}"] = (name, json.dumps(word))
            case _:
                of_json.append(name)
    return {**found, **texts, **dict.fromkeys((*of_json, "line"), pa.string())}, frozenset(of_json), aside


COLUMNS: Mapping[str, pa.DataType]
COLUMNS, JSON_COLUMNS, _ASIDE = _columns()
"""All columns. A file must have `n`, `t`, `k` and the columns that the kinds of its events require.

`JSON_COLUMNS` hold JSON text, for fields that may hold any value, a list or an object. The columns of `_ASIDE` hold
what the field's own column cannot: `id_text` an id that is a string, `w_end` marks the final watermark, `ts_null` a
`ts` that is present and null. A `start` always has `from`; a null cell is a null `from`.
"""
_BESIDE = {name: (column, constant) for column, (name, constant) in _ASIDE.items()}


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


def _cells(event: Event) -> Json:
    cells: dict[str, Any] = {}
    for name, value in event_json(event).items():
        if name in JSON_COLUMNS:
            cells[name] = _canonical(value)
        elif type(value) is int and not -_INT <= value < _INT:
            return _as_line(event)
        elif isinstance(value, str):
            # UTF-8 cannot encode an unpaired surrogate.
            if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
                return _as_line(event)
            column, constant = _BESIDE.get(name, (name, None))
            cells[column] = value if constant is None else True
        elif value is None and name in _BESIDE:
            cells[_BESIDE[name][0]] = True
        else:
            cells[name] = value
    return cells


def _as_line(event: Event) -> Json:
    return {"line": line_of(event).decode().strip()}


def _canonical(value: object) -> str:
    """The JSON text of msgspec's encoder if it is lossless."""
    try:
        text = msgspec.json.encode(value)
        if b"null" not in text or repr(json.loads(text)) == repr(value):
            return text.decode()
    except (ValueError, RecursionError):
        pass
    return json_text(value)


_WHITE = " \t\r\n"
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


def column_pieces(path: Path, progress: OnRead | None = None) -> Iterator[bytes | Line]:
    """The text of `path`; raises UsageError if it cannot be read, `CutOff` if it is damaged."""
    rows = open_rows(path)
    yield Line(rows.header)
    count = 0
    for batch in rows.batches:
        yield from text_of_rows(batch)
        count += batch.num_rows
        if progress is not None:
            progress(rows.size * count // rows.total, rows.size)


def open_rows(path: Path) -> Rows:
    """Open a file or a folder of parts, and check its columns; raises as `column_pieces`, here and in iteration."""
    if path.is_dir():
        return _open_parts(path)
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
                yield all_columns(part.slice(start, ROWS))


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
    if pa.types.is_integer(wanted):
        return bool(pa.types.is_integer(given))
    return bool(pa.types.is_string(wanted)) and any(is_one(given) for is_one in _TEXT_COLUMNS)


def all_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with all of `COLUMNS`, in order, and nothing else."""
    arrays = []
    for name, wanted in COLUMNS.items():
        at = batch.schema.get_field_index(name)
        arrays.append(pa.nulls(batch.num_rows, wanted) if at < 0 else batch.column(at).cast(wanted))
    return pa.RecordBatch.from_arrays(arrays, names=list(COLUMNS))


HEADER_FILE = "_header.json"
"""The file with the header, in a folder of parts whose writer cannot put it into the schema's metadata."""


def write_parts(folder: Path, header: Header, events: Iterable[Event]) -> None:
    """Write a history as many tasks would: a Parquet file for each subtask, and one for what belongs to none."""
    folder.mkdir(parents=True, exist_ok=True)
    schema = _schema_of(header)
    kept: dict[int | None, list[Event]] = {}
    with ExitStack() as stack:
        tables: dict[int | None, pq.ParquetWriter] = {}

        def flush(s: int | None) -> None:
            if s not in tables:
                name = "part-none.parquet" if s is None else f"part-{s:05d}.parquet"
                tables[s] = stack.enter_context(pq.ParquetWriter(folder / name, schema, compression="zstd"))
            for batch in _packed(kept.pop(s), schema):
                tables[s].write_batch(batch)

        for event in events:
            s = getattr(event, "s", None)
            mine = kept.setdefault(s if isinstance(s, int) else None, [])
            mine.append(event)
            if len(mine) == ROWS:
                flush(s if isinstance(s, int) else None)
        for s in list(kept):
            flush(s)


def _open_parts(folder: Path) -> Rows:
    """The parts of a folder as one history, whose rows are in order of `n`."""
    parts = parts_of(folder)
    if not parts:
        message = f"cannot read {folder}: it is a directory without Parquet files"
        raise UsageError(message, fix="name a history file, or the folder into which tasks wrote one")
    file = folder / HEADER_FILE
    headers = [file.read_bytes().strip()] if file.is_file() else []
    complaints = []
    for part in parts:
        with _readable(part), _makes_sense():
            schema = pq.read_schema(part)
        complaints += [f"{part.name}: {say}" for say in _complaints(schema)]
        if (header := (schema.metadata or {}).get(HEADER_KEY)) is not None:
            headers.append(header)
    if complaints:
        raise CutOff("; ".join(complaints))
    if not headers:
        raise CutOff(f"no part has the header in its schema's metadata, and there is no {HEADER_FILE}")
    if any(header != headers[0] for header in headers):
        raise CutOff("the parts have different headers")
    size = sum(part.stat().st_size for part in parts)
    with _makes_sense():
        total = sum(pq.read_metadata(part).num_rows for part in parts)
    return Rows(header=headers[0], size=size, total=max(1, total), batches=_merged(parts))


def _merged(parts: Sequence[Path]) -> Iterator[pa.RecordBatch]:
    """The rows of all parts by rising `n`; in memory are some batches of each part, and a part that is not in order."""
    waiting = {number: rows for number, part in enumerate(parts) if (rows := _Waiting(part)).more()}
    while waiting:
        until = min(rows.last for rows in waiting.values())
        taken = [table for rows in waiting.values() if (table := rows.take(until)).num_rows]
        table = pa.concat_tables(taken)
        order = pc.sort_indices(table.column(_ORDER), sort_keys=[("", "ascending")])
        yield from table.take(order).drop_columns([_ORDER]).combine_chunks().to_batches(max_chunksize=ROWS)
        waiting = {number: rows for number, rows in waiting.items() if rows.more()}


_ORDER = "order"


class _Waiting:
    """The next rows of one part, with a column by which they are sorted. Mutable."""

    def __init__(self, part: Path) -> None:
        self._batches = self._sorted(part)
        self._table: pa.Table | None = None
        self.last = 0

    def more(self) -> bool:
        """Whether there are rows left, which are then held."""
        while self._table is None or not self._table.num_rows:
            batch = next(self._batches, None)
            if batch is None:
                return False
            self._table = batch
            self.last = batch.column(_ORDER)[-1].as_py()
        return True

    def take(self, until: int) -> pa.Table:
        """The held rows up to that number."""
        assert self._table is not None, "asked after `more`"
        numbers = self._table.column(_ORDER).to_numpy()
        count = int(numbers.searchsorted(until, side="right"))
        taken, self._table = self._table.slice(0, count), self._table.slice(count)
        return taken

    def _sorted(self, part: Path) -> Iterator[pa.Table]:
        """The batches of the part; all at once if they are not in order of `n`."""
        highest, batches = -_INT, []
        in_order = True
        with _makes_sense():
            for numbers in pq.ParquetFile(part).iter_batches(batch_size=ROWS, columns=["n"]):
                column = numbers.column("n").fill_null(highest)
                rising = column.to_numpy(zero_copy_only=False)
                if len(rising) and (rising[0] < highest or (rising[1:] < rising[:-1]).any()):
                    in_order = False
                highest = int(rising[-1]) if len(rising) else highest
        if in_order:
            yield from map(_with_order, _batches_of_part(part))
            return
        batches = list(map(_with_order, _batches_of_part(part)))
        table = pa.concat_tables(batches)
        yield table.take(pc.sort_indices(table.column(_ORDER)))


def _batches_of_part(part: Path) -> Iterator[pa.RecordBatch]:
    batches = _batches(part)
    next(batches)
    return batches


def _with_order(batch: pa.RecordBatch) -> pa.Table:
    """Adds the order `n`; a row that is stored as text has it in its text."""
    numbers = batch.column("n").to_pylist()
    if batch.column("line").null_count < batch.num_rows or None in numbers:
        lines = batch.column("line").to_pylist()
        numbers = [_number(line) if n is None else n for n, line in zip(numbers, lines, strict=True)]
    return pa.Table.from_batches([batch]).append_column(_ORDER, pa.array(numbers, pa.int64()))


def _number(line: str | None) -> int:
    """The `n` of a row that is stored as text; a row without any comes last."""
    try:
        n = json.loads(line or "")["n"]
    except (ValueError, TypeError, KeyError):
        return _INT - 1
    return n if type(n) is int and -_INT <= n < _INT else _INT - 1


def text_of_rows(batch: pa.RecordBatch) -> Iterator[bytes | Line]:
    """The lines of these rows, many together; by themselves those of which one is odd."""
    filled = [name for name in batch.schema.names if batch.column(name).null_count < batch.num_rows]
    rows = batch.select(filled)
    for start in range(0, rows.num_rows, _FEW):
        few = rows.slice(start, _FEW)
        text = _text_of({name: few.column(name).to_pylist() for name in filled}, few.num_rows)
        if text is None:
            yield from map(_line_of_row, few.to_pylist() if filled else [{}] * few.num_rows)
        else:
            yield text


def _text_of(columns: Mapping[str, Sequence[object]], count: int) -> bytes | None:
    """The lines of these rows; None if one of them is odd, or not the text of its cells alone."""
    if not columns or "line" in columns:
        return None
    absent = [None] * count
    if "start" in columns.get("k", ()) and any(
        k == "start" and checkpoint is None
        for k, checkpoint in zip(columns["k"], columns.get("from", absent), strict=True)
    ):
        return None
    for aside, (name, _) in _ASIDE.items():
        pairs = zip(columns.get(aside, absent), columns.get(name, absent), strict=True)
        if aside in columns and any(beside and own is not None for beside, own in pairs):
            return None
    fields = []
    try:
        for name, cells in columns.items():
            texts = {cell: None if cell is None else _field_text(name, cell) for cell in dict.fromkeys(cells)}
            fields.append(map(texts.__getitem__, cells))
    except ValueError:
        return None
    text = "{" + "}\n{".join(",".join(filter(None, row)) for row in zip(*fields, strict=True)) + "}\n"
    # JSON of a stranger may have line feeds.
    return text.encode() if text.count("\n") == count else None


def _line_of_row(row: Mapping[str, object]) -> Line:
    """The text form of a row; if it has none, a Line with the reason in `odd`."""
    cells = {name: cell for name, cell in row.items() if cell is not None}
    try:
        return Line(_text(cells).encode())
    except ValueError as odd:
        return Line(json.dumps(cells).encode(), odd=str(odd))


def _text(cells: Json) -> str:
    """The text form; raises ValueError with the reason if there is none."""
    if "line" in cells:
        if len(cells) > 1:
            raise ValueError("the row has a `line`, and another cell beside it")
        return _json("line", cells["line"])
    for aside, (name, _) in _ASIDE.items():
        if cells.get(aside) and name in cells:
            raise ValueError(f"the row has both `{name}` and `{aside}`")
    fields = [text for name, cell in cells.items() if (text := _field_text(name, cell))]
    if cells.get("k") == "start" and "from" not in cells:
        fields.append('"from":null')
    return "{" + ",".join(fields) + "}"


def _field_text(name: str, cell: Any) -> str | None:
    """The field of a cell that is not null, as in the text form; raises ValueError if its JSON is not strict."""
    if name in JSON_COLUMNS:
        return f'"{name}":{_json(name, cell)}'
    if type(cell) is int:
        return f'"{name}":{cell}'
    field, constant = _ASIDE.get(name, (name, None))
    if constant is None:
        return f'"{field}":{json.dumps(cell)}'
    return f'"{field}":{constant}' if cell else None


def _json(name: str, cell: str) -> str:
    """The stripped JSON text of a cell; raises ValueError if it is not strict JSON."""
    stripped = cell.strip(_WHITE)
    value = strictly(stripped.encode())
    if isinstance(value, Loose):
        raise ValueError(f"`{name}` of the row: {value.say.replace('the line', 'it')}")  # noqa: TRY004
    return stripped
