"""The tables of a user's own lookup: files of SQL, CSV and JSON lines, read before a run, loaded at its beginning.

Answers to `mysql < schema.sql` and `LOAD DATA`. Invariant: every mistake is told with its file and line; one that shows
in the file alone is told before anything is started. The tables stand in a database beside the run's own.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec
import pymysql
from pymysql.cursors import DictCursor, SSCursor

from harness.database.audit import batched
from harness.database.driver import Cursor
from harness.database.endpoint import Endpoint, KeptConnection, MySqlConnection, connect
from harness.system.errors import UsageError

_BATCH: Final = 500
"""Rows inserted at once."""
_LOAD_S: Final = 60.0
"""Limit of one statement of a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One SQL statement of a file."""

    at: str
    """Its file and line."""
    sql: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRows:
    """The rows of one table from a file."""

    table: str
    rows: Sequence[tuple[str, Mapping[str, Any]]]
    """Each with its file and line, and its values by column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTables:
    """All that makes and fills the tables, in order."""

    parts: Sequence[Statement | OwnRows]


def read_own_tables(schema: str, data: Sequence[str]) -> OwnTables:
    """Reads the files. Raises UsageError with file and line."""
    parts: list[Statement | OwnRows] = list(_read(Path(schema)))
    for name in data:
        parts += _read(Path(name))
    return OwnTables(parts=parts)


def _read(file: Path) -> Sequence[Statement | OwnRows]:
    try:
        state = file.stat()
        return _read_once(file, state.st_mtime_ns, state.st_size)
    except OSError as error:
        message = f"{file} cannot be read: {error.strerror}"
        raise UsageError(message, fix="name a file that exists and that you may read") from error


@lru_cache(maxsize=32)
def _read_once(file: Path, _changed_ns: int, _bytes: int) -> Sequence[Statement | OwnRows]:
    try:
        text = file.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        _refuse(f"{file}:{line}", "this is not UTF-8 text", "save it as UTF-8")
    if file.suffix.lower() == ".sql":
        return tuple(_statements(file, text))
    rows_of = {".csv": _csv_rows, ".jsonl": _json_rows}.get(file.suffix.lower())
    if rows_of is None:
        _refuse(str(file), "this is neither .sql, .csv nor .jsonl", "name it after its form")
    return (OwnRows(table=file.stem, rows=tuple(rows_of(file, text))),)


def _statements(file: Path, text: str) -> Iterator[Statement]:
    """The statements between semicolons, or between what a line `DELIMITER` names; comments stay in them."""
    delimiter, begin, place = ";", 0, 0
    while place < len(text):
        if (place == 0 or text[place - 1] == "\n") and text[place : place + 10].upper() == "DELIMITER ":
            end = _after(text, "\n", place)
            delimiter = text[place + 10 : end].strip()
            begin = place = end
        elif text.startswith(delimiter, place):
            yield from _statement(file, text, begin, place)
            begin = place = place + len(delimiter)
        else:
            place = _past(text, place)
    yield from _statement(file, text, begin, len(text))


def _statement(file: Path, text: str, begin: int, end: int) -> Iterator[Statement]:
    """The statement in `text[begin:end]`, unless there are only comments."""
    while begin < end and (text[begin].isspace() or _is_comment(text, begin)):
        begin = min(_past(text, begin), end)
    if begin < end:
        line = text.count("\n", 0, begin) + 1
        yield Statement(at=f"{file}:{line}", sql=text[begin:end].strip())


def _is_comment(text: str, place: int) -> bool:
    """Whether a comment begins there; `/*!` and `/*M!` are statements."""
    if text.startswith(("#", "-- ", "--\n", "--\t"), place):
        return True
    return text.startswith("/*", place) and not text.startswith(("/*!", "/*M!"), place)


def _past(text: str, place: int) -> int:
    """The place behind what begins at `place`: a comment, a quoted text, or one character."""
    if text.startswith(("#", "-- ", "--\n", "--\t"), place):
        return _after(text, "\n", place)
    if text.startswith("/*", place):
        return _after(text, "*/", place)
    quote = text[place]
    if quote not in "'\"`":
        return place + 1
    place += 1
    while place < len(text) and text[place] != quote:
        place += 2 if text[place] == "\\" and quote != "`" else 1
    return place + 1


def _after(text: str, what: str, place: int) -> int:
    found = text.find(what, place)
    return len(text) if found < 0 else found + len(what)


def _csv_rows(file: Path, text: str) -> Iterator[tuple[str, Mapping[str, object]]]:
    """A line of names, then the rows. An empty field is NULL."""
    reader = csv.reader(text.splitlines(keepends=True), strict=True)
    names: list[str] = []
    try:
        for fields in reader:
            at = f"{file}:{reader.line_num}"
            if not fields:
                continue
            if not names:
                names = [name.strip() for name in fields]
                continue
            if len(fields) != len(names):
                what = f"this line has {len(fields)} fields, and the first one names {len(names)} columns"
                _refuse(at, what, "write one field for each column, separated by commas")
            yield at, {name: field or None for name, field in zip(names, fields, strict=True)}
    except csv.Error as error:
        _refuse(
            f"{file}:{reader.line_num}",
            f"this is no CSV ({error})",
            'quote a text with commas or lines: "a, b"',
        )
    if not names:
        _refuse(str(file), "it is empty", "write the names of the columns in the first line")


def _json_rows(file: Path, text: str) -> Iterator[tuple[str, Mapping[str, object]]]:
    """A JSON object a line, with its values by column; lists and objects are stored as JSON texts."""
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        at, fix = f"{file}:{number}", 'write one JSON object a line, as in {"sku": 7, "name": "nut"}'
        try:
            told = msgspec.json.decode(line)
        except msgspec.DecodeError as error:
            _refuse(at, f"this is no JSON ({error})", fix)
        if not isinstance(told, dict) or not told:
            _refuse(at, "this is no JSON object with columns", fix)
        yield (
            at,
            {
                name: msgspec.json.encode(value).decode() if isinstance(value, dict | list) else value
                for name, value in told.items()
            },
        )


def fill_own_tables(root: Endpoint, tables: OwnTables) -> None:
    """Makes and fills the tables in `root.database`. Raises UsageError with the line at which the server refuses."""
    with connect(root, statement_s=_LOAD_S) as connection:
        with connection.cursor() as cursor:
            for part in tables.parts:
                if isinstance(part, OwnRows):
                    _insert(cursor, part)
                    continue
                try:
                    cursor.execute(part.sql)
                except pymysql.MySQLError as error:
                    _refused(part.at, error, "correct the statement that begins there")
        connection.commit()


def read_effects(
    tables: KeptConnection, database: str, *, table: str, column: str, take: Callable[[int | str], None]
) -> int:
    """Calls `take` with the record's id of each row that the lookup wrote; returns how many rows the database counts.

    A value that is no whole number is no id: it is given as a text, which no record has.

    Raises pymysql's errors.
    """
    connection, place = tables.opened(), f"`{database}`.`{table}`"
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT COUNT(*) FROM {place}")  # noqa: S608 - the names have letters and digits only
        count = int(cursor.fetchone()[0])
    with connection.cursor(SSCursor) as cursor:
        cursor.execute(f"SELECT `{column}` FROM {place}")  # noqa: S608 - as above
        for (id_,) in batched(cursor):
            take(id_ if isinstance(id_, int) else str(id_))
    return count


class OwnTableRows:
    """The rows of the tables by the keys of records, as the database holds them.

    A record's key stands in the first columns of a table's primary key, or of the table if it has none.
    """

    def __init__(self, connection: MySqlConnection) -> None:
        self._connection = connection

    def by_key(self, keys: Iterable[object]) -> dict[object, list[dict[str, object]]]:
        """The rows of `keys` in all tables, with all their columns; keys without rows are left out."""
        wanted = list(dict.fromkeys(keys))
        found: dict[Any, list[dict[str, Any]]] = {}
        with self._connection.cursor(DictCursor) as cursor:
            cursor.execute(_COLUMNS)
            # The columns of each table, those of its primary key first.
            columns_of: dict[str, list[str]] = {}
            for column in cursor.fetchall():
                columns_of.setdefault(column["of_table"], []).append(column["name"])
            for table, columns in columns_of.items():
                for begin in range(0, len(wanted), _BATCH):
                    for key, row in _rows_of(cursor, table, columns, wanted[begin : begin + _BATCH]):
                        found.setdefault(key, []).append(row)
        return found

    def whole(self) -> None:
        """The tables may be large, and which column is the key of another row is not known."""


_COLUMNS: Final = """
    SELECT c.table_name AS of_table, c.column_name AS name
    FROM information_schema.columns AS c
    JOIN information_schema.tables AS t USING (table_schema, table_name)
    LEFT JOIN information_schema.key_column_usage AS k
      ON k.table_schema = c.table_schema AND k.table_name = c.table_name AND k.column_name = c.column_name
      AND k.constraint_name = 'PRIMARY'
    WHERE c.table_schema = DATABASE() AND t.table_type = 'BASE TABLE'
    ORDER BY c.table_name, k.ordinal_position IS NULL, k.ordinal_position, c.ordinal_position
"""


def _rows_of(
    cursor: DictCursor, table: str, columns: Sequence[str], keys: Sequence[object]
) -> Iterator[tuple[object, dict[str, object]]]:
    """Each row of the keys, with its key; compared as text, for the server compares `7` with `'7'`."""
    by_parts: dict[int, dict[tuple[str, ...], Any]] = {}
    for key in keys:
        parts = key if isinstance(key, tuple) else (key,)
        by_parts.setdefault(len(parts), {})[tuple(map(str, parts))] = key
    for count, told in by_parts.items():
        if count > len(columns):
            continue
        names = ", ".join(_quoted(name) for name in columns[:count])
        tuples = ", ".join([f"({', '.join(['%s'] * count)})"] * len(told))
        given = [part for key in told.values() for part in (key if isinstance(key, tuple) else (key,))]
        cursor.execute(f"SELECT * FROM {_quoted(table)} WHERE ({names}) IN ({tuples})", given)  # noqa: S608 - quoted names
        for row in cursor.fetchall():
            key = told.get(tuple(str(row[name]) for name in columns[:count]))
            if key is not None:
                yield key, row


def _insert(cursor: Cursor, part: OwnRows) -> None:
    """In batches; where one is refused, row by row, to find the line."""
    for begin in range(0, len(part.rows), _BATCH):
        batch = part.rows[begin : begin + _BATCH]
        cursor.execute("SAVEPOINT batch")
        try:
            for columns, rows in _of_equal_columns(batch):
                cursor.executemany(_into(part.table, columns), rows)
        except pymysql.MySQLError:
            cursor.execute("ROLLBACK TO SAVEPOINT batch")
            for at, row in batch:
                try:
                    cursor.execute(_into(part.table, tuple(row)), list(row.values()))
                except pymysql.MySQLError as error:
                    _refused(at, error, f"correct the line, or the table `{part.table}` in the schema")


def _of_equal_columns(
    rows: Sequence[tuple[str, Mapping[str, object]]],
) -> Iterator[tuple[tuple[str, ...], list[list[object]]]]:
    """Neighbours with the same columns together."""
    columns: tuple[str, ...] | None = None
    found: list[list[Any]] = []
    for _, row in rows:
        if columns != tuple(row):
            if columns is not None:
                yield columns, found
            columns, found = tuple(row), []
        found.append(list(row.values()))
    if columns is not None:
        yield columns, found


def _into(table: str, columns: Sequence[str]) -> str:
    names = ", ".join(_quoted(name) for name in columns)
    return f"INSERT INTO {_quoted(table)} ({names}) VALUES ({', '.join(['%s'] * len(columns))})"  # noqa: S608 - quoted names


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``").replace("%", "%%") + "`"


def _refused(at: str, error: pymysql.MySQLError, fix: str) -> NoReturn:
    code, *words = error.args or ("",)
    raise UsageError(
        f"{at}: the server refuses this: {words[0] if words else code} ({code})", fix=fix
    ) from error


def _refuse(at: str, what: str, fix: str) -> NoReturn:
    raise UsageError(f"{at}: {what}", fix=fix)
