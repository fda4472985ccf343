"""The statements of a job as the database sees them, from its general log.

Invariants: the log is asked past the proxy and tells each statement once; what it cannot tell is said, as after a
restart of the server; the log is switched off again, also after an error.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import pymysql

from harness.database.endpoint import Endpoint, connect
from harness.system.clock import monotonic_us

_BEGIN: Final = (
    "SET GLOBAL log_output = 'TABLE'",
    "TRUNCATE TABLE mysql.general_log",
    "SET GLOBAL general_log = 1",
)
_END: Final = ("SET GLOBAL general_log = 0",)
_READ: Final = (
    "SELECT UNIX_TIMESTAMP(event_time), thread_id, argument FROM mysql.general_log"
    " WHERE command_type IN ('Query', 'Execute') AND user_host LIKE %s ORDER BY event_time"
)
_LITERAL: Final = re.compile(r"'((?:[^'\\]|\\.)*)'|(?<![\w.])(-?\d+)(?![\w.])")
_MAX: Final = 100_000
"""Statements of the job that are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentStatement:
    """One statement; of a prepared one each execution, with its values."""

    t_us: int
    """Microseconds of the machine's monotonic clock."""
    session: int
    text: str


@dataclass(slots=True, kw_only=True)
class StatementLog:
    """The log is on while its block lasts. Mutable."""

    root: Endpoint
    user: str
    """The database user of the job."""
    trouble: str = ""
    """Why lookups could not be counted, or not all."""
    _offset_us: int = 0

    def __enter__(self) -> Self:
        """Switches the log on; sets `trouble` if that fails."""
        try:
            with connect(self.root) as connection, connection.cursor() as cursor:
                cursor.execute("SELECT UNIX_TIMESTAMP(NOW(6))")
                row = cursor.fetchone()
                self._offset_us = monotonic_us() - round(float(row[0]) * 1e6) if row else 0
            self._run(*_BEGIN)
        except (pymysql.MySQLError, OSError) as error:
            self.trouble = f"Lookups were not counted: {error}."
        return self

    def __exit__(self, *_: object) -> None:
        """Switches the log off, whatever has happened; adds to `trouble` if that fails."""
        try:
            self._run(*_END)
        except (pymysql.MySQLError, OSError) as error:
            self.trouble = (
                f"{self.trouble} The server's general log could not be switched off: {error}.".strip()
            )

    def read(self) -> Sequence[SentStatement]:
        """The statements until now, in the order of time."""
        if self.trouble:
            return []
        try:
            with connect(self.root, statement_s=60) as connection, connection.cursor() as cursor:
                cursor.execute("SELECT @@GLOBAL.general_log")
                row = cursor.fetchone()
                if row is not None and not row[0]:
                    self.trouble = "Lookups after the restart of the server were not counted."
                cursor.execute(_READ, (f"{self.user}[%",))
                rows = cursor.fetchmany(_MAX)
                if cursor.fetchone() is not None:
                    too_many = f"Lookups after the job's first {_MAX} statements were not counted."
                    self.trouble = f"{self.trouble} {too_many}".strip()
        except (pymysql.MySQLError, OSError) as error:
            self.trouble = f"Lookups were not counted: {error}."
            return []
        return [
            SentStatement(
                t_us=round(float(at) * 1e6) + self._offset_us,
                session=int(session),
                text=said.decode(errors="replace") if isinstance(said, bytes) else str(said),
            )
            for at, session, said in rows
        ]

    def _run(self, *statements: str) -> None:
        with connect(self.root) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)


def keys_asked_for(text: str, *, tables: Collection[str], keys: Mapping[str, Any]) -> Sequence[Any]:
    """The keys of a lookup, None for one that names none of `keys` (by their text); of another statement none."""
    if not is_lookup(text, tables):
        return ()
    return [keys[one] for one in literals(text) if one in keys] or [None]


def is_lookup(statement: str, tables: Collection[str]) -> bool:
    """Whether a statement reads one of the looked-up tables and writes nothing."""
    words = statement.replace("`", " ").replace(".", " ").split()
    names = {word.strip("(),;").lower() for word in words}
    reads = bool(words) and words[0].upper() in {"SELECT", "WITH"}
    return reads and not names.isdisjoint(table.lower() for table in tables)


def literals(statement: str) -> Iterator[str]:
    """The texts and whole numbers behind the statement's first WHERE; without one, all of them."""
    place = statement.upper().find("WHERE")
    yield from every_literal(statement[max(0, place) :])


def every_literal(statement: str) -> Iterator[str]:
    """The texts, as they are written, and whole numbers of a statement."""
    for text, number in _LITERAL.findall(statement):
        yield text or number
