"""The run's database as the harness itself sees it, past the proxy: its log's end, sessions, columns and tables.

Answers to `harness.database.audit` for tables that are not ours. Invariants: a table is read in one consistent snapshot
whose place in the log is known; the audit trigger writes in the transaction that it tells of, and is left out where it
would have to wait; every wait is bounded.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import pymysql
from pymysql.constants import ER
from pymysql.cursors import DictCursor

from harness.database.endpoint import Endpoint, MySqlConnection, connect
from harness.levels.job.binlog import LoggedTransaction, LogPosition, log_position
from harness.system.clock import Deadline, pause

AUDIT: Final = "floodmark_audit"
INBOX: Final = "inbox"
"""The source of kind `table`."""
_ASK_S: Final = 1.0
_READ_S: Final = 60.0
_EVENTS: Final = ("INSERT", "UPDATE", "DELETE")
_SETS: Final = frozenset({"SET NULL", "SET DEFAULT"})
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReading:
    """What SQL reads of the tables at one place of the log."""

    at: LogPosition
    tables: Mapping[str, Sequence[Mapping[str, Any]]]
    """The rows of each table by column; one that does not exist is left out."""
    counts: Mapping[str, int]
    """How many rows the database counts in each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """What the server says of a table."""

    made_by: str = ""
    """The statement that makes it, without the number that the server would give next."""
    types: Mapping[str, str] = field(default_factory=dict)
    """The data type of each column."""
    lengths: Mapping[str, int] = field(default_factory=dict)
    """How many characters a column of texts takes."""
    cascades: str = ""
    """A foreign key by which its rows change and the log shows none of it; empty: there is no such key."""
    without_transactions: str = ""
    """Its engine, if that has no transactions."""
    is_view: bool = False


def audited_session(transaction: LoggedTransaction) -> int | None:
    """The session that wrote a transaction, as the trigger or the log tells it."""
    for change in transaction.changes:
        if change.table == AUDIT and change.now is not None:
            return int(change.now["session"])
    return transaction.session


@dataclass(slots=True, kw_only=True)
class JobDatabase:
    """Asks over one kept connection, from any thread. Mutable."""

    root: Endpoint
    """The run's database, directly, as root, on the server whose table and log count."""
    writes: Callable[[], Endpoint] | None = None
    """The same on the server that takes writes now; None: there is only one."""
    settle: Callable[[], None] = lambda: None
    """Returns when `root` has all that is committed on the server that takes writes."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _kept: Any = None
    _last: LogPosition | None = None

    @property
    def _written(self) -> Endpoint:
        return self.root if self.writes is None else self.writes()

    def close(self) -> None:
        """Closes the kept connection."""
        with self._lock:
            self._drop()

    def end_of_log(self, fallback: Callable[[], LogPosition]) -> LogPosition:
        """Where the log ends now; what `fallback` knows, if the server does not answer at once."""
        with self._lock:
            found = self._asked(log_position)
        if found is not None:
            self._last = found
            return found
        known = fallback()
        return known if self._last is None else max(known, self._last)

    def sessions(self) -> int | None:
        """The number of the newest session of the server that takes writes; None: it does not answer."""
        if self.writes is not None:
            try:
                with connect(self.writes(), statement_s=_ASK_S) as connection:
                    return _sessions(connection)
            except (pymysql.MySQLError, OSError):
                return None
        with self._lock:
            return self._asked(_sessions)

    def facts(self, table: str, *, judged: Collection[str], known: TableFacts) -> TableFacts | None:
        """What is to be known of a table; None: there is none of this name. Raises pymysql's errors.

        `known`: the answer, if the table was made by the same statement; `judged`: the columns that are compared.
        """
        try:
            (shown,) = self._rows(f"SHOW CREATE TABLE `{table}`")
        except pymysql.ProgrammingError as error:
            if error.args[0] == ER.NO_SUCH_TABLE:
                return None
            raise
        is_view = "View" in shown  # the name of its first column
        made_by = re.sub(r" AUTO_INCREMENT=\d+", "", shown["Create View" if is_view else "Create Table"])
        if made_by == known.made_by:
            return known
        types, lengths = self._columns(table)
        return TableFacts(
            made_by=made_by,
            types=types,
            lengths=lengths,
            cascades=self._cascades(table, judged=judged),
            without_transactions=self._without_transactions(table),
            is_view=is_view,
        )

    def _columns(self, table: str) -> tuple[Mapping[str, str], Mapping[str, int]]:
        """The data type of each column; of texts the length in characters."""
        rows = self._rows(
            "SELECT column_name AS c, data_type AS t, character_maximum_length AS n FROM information_schema.columns"
            " WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
            (self.root.database, table),
        )
        lengths = {row["c"]: int(row["n"]) for row in rows if row["n"] is not None}
        return {row["c"]: row["t"].lower() for row in rows}, lengths

    def _without_transactions(self, table: str) -> str:
        """The engine of `table`, if it has no transactions; else an empty text."""
        rows = self._rows(
            "SELECT e.engine AS e FROM information_schema.tables AS t JOIN information_schema.engines AS e"
            " ON e.engine = t.engine WHERE t.table_schema = %s AND t.table_name = %s AND e.transactions = 'NO'",
            (self.root.database, table),
        )
        return str(rows[0]["e"]) if rows else ""

    def tables(self) -> Mapping[str, str]:
        """The type of each table of the database, views too. Raises pymysql's errors."""
        rows = self._rows(
            "SELECT table_name AS n, table_type AS t FROM information_schema.tables WHERE table_schema = %s",
            (self.root.database,),
        )
        return {row["n"]: row["t"] for row in rows}

    def keys_of(self, table: str) -> tuple[Sequence[str], frozenset[str]]:
        """The columns of its primary key, else of its first unique one, and those that the server numbers by itself.

        Raises pymysql's errors.
        """
        place = (self.root.database, table)
        unique = self._rows(
            "SELECT index_name AS i, column_name AS c FROM information_schema.statistics WHERE table_schema = %s"
            " AND table_name = %s AND non_unique = 0 ORDER BY index_name <> 'PRIMARY', index_name, seq_in_index",
            place,
        )
        numbered = self._rows(
            "SELECT column_name AS c FROM information_schema.columns WHERE table_schema = %s AND table_name = %s"
            " AND extra LIKE '%%auto_increment%%'",
            place,
        )
        return [row["c"] for row in unique if row["i"] == unique[0]["i"]], frozenset(
            row["c"] for row in numbered
        )

    def _cascades(self, table: str, *, judged: Collection[str]) -> str:
        """A foreign key by which the server itself changes rows of `table`, below the log.

        Where a key only sets its own columns, they must be among the `judged` ones.
        """
        rows = self._rows(
            "SELECT r.constraint_name AS name, r.referenced_table_name AS other, r.delete_rule AS d,"
            " r.update_rule AS u, k.column_name AS c FROM information_schema.referential_constraints AS r"
            " JOIN information_schema.key_column_usage AS k ON k.constraint_schema = r.constraint_schema"
            " AND k.constraint_name = r.constraint_name AND k.table_name = r.table_name"
            " WHERE r.constraint_schema = %s AND r.table_name = %s",
            (self.root.database, table),
        )
        for row in rows:
            sets = [row["d"] in _SETS, row["u"] in {"CASCADE", *_SETS}]
            if row["d"] == "CASCADE" or (any(sets) and row["c"] in judged):
                told = (
                    f"ON DELETE {row['d']}" if row["d"] == "CASCADE" or sets[0] else f"ON UPDATE {row['u']}"
                )
                return f"by the foreign key {row['name']} ({told} of {row['other']})"
        return ""

    def run(self, *statements: str) -> None:
        """Runs statements where they take effect. Raises pymysql's errors."""
        with connect(self._written) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            connection.commit()

    def install_audit(self, table: str) -> str:
        """Makes the trigger that tells the session of each change; returns why it could not, or an empty text."""
        try:
            with connect(self._written) as connection, connection.cursor() as cursor:
                cursor.execute("SET SESSION lock_wait_timeout = 1")
                cursor.execute(
                    f"CREATE TABLE IF NOT EXISTS {AUDIT}"
                    " (n BIGINT AUTO_INCREMENT PRIMARY KEY, session BIGINT NOT NULL, op CHAR(1) NOT NULL)"
                )
                for event in _EVENTS:
                    cursor.execute(
                        f"CREATE TRIGGER IF NOT EXISTS floodmark_{event.lower()} AFTER {event} ON `{table}`"
                        f" FOR EACH ROW INSERT INTO `{self.root.database}`.{AUDIT} (session, op)"
                        f" VALUES (CONNECTION_ID(), '{event[0]}')"
                    )
        except (pymysql.MySQLError, OSError) as error:
            # PyMySQL's error of a closed connection has no words: its text is (0, '')
            return f"{type(error).__name__}: {error}"
        return ""

    def snapshot(self, tables: Sequence[str], *, limit_s: float) -> TableReading:
        """Reads `tables` whole; waits up to `limit_s` for a server that does not answer. Raises pymysql's errors."""
        self.settle()
        deadline = Deadline(limit_s)
        while True:
            try:
                return self._snapshot(tables)
            except (pymysql.OperationalError, OSError):
                if deadline.passed:
                    raise
            pause(0.1)

    def _snapshot(self, tables: Sequence[str]) -> TableReading:
        with connect(self.root, statement_s=_READ_S) as connection, connection.cursor(DictCursor) as cursor:
            cursor.execute("SET SESSION time_zone = '+00:00'")
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            there = self.tables()
            with _standing_still(connection):
                cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
                at = log_position(connection)
            read, counts = {}, {}
            for table in tables:
                if table not in there:
                    continue
                cursor.execute(f"SELECT COUNT(*) AS n FROM `{table}`")
                counts[table] = sum(row["n"] for row in cursor.fetchall())
                cursor.execute(f"SELECT * FROM `{table}`")
                read[table] = list(cursor.fetchall())
        return TableReading(at=at, tables=read, counts=counts)

    def _rows(self, query: str, values: Sequence[object] = ()) -> list[dict[str, Any]]:
        with connect(self.root) as connection, connection.cursor(DictCursor) as cursor:
            cursor.execute(query, values or None)
            return list(cursor.fetchall())

    def _asked(self, question: Callable[[MySqlConnection], _T]) -> _T | None:
        """The answer over the kept connection; None: the server does not answer at once."""
        for _ in range(2):  # the kept connection may be one of a server that has been killed since
            is_new = self._kept is None
            try:
                if is_new:
                    self._kept = connect(self.root, statement_s=_ASK_S)
                return question(self._kept)
            except (pymysql.MySQLError, OSError):
                self._drop()
                if is_new:
                    return None
        return None

    def _drop(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            with suppress(Exception):
                kept.close()


def _sessions(connection: MySqlConnection) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SHOW GLOBAL STATUS LIKE 'Connections'")
        return int(cursor.fetchone()[1])


@contextmanager
def _standing_still(connection: MySqlConnection) -> Iterator[None]:
    """No transaction commits while the block lasts, so that a snapshot and the log's end are of one moment."""
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION lock_wait_timeout = 10")
        cursor.execute("FLUSH TABLES WITH READ LOCK")
        try:
            yield
        finally:
            cursor.execute("UNLOCK TABLES")
