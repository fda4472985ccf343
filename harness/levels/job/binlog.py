"""Follows the database's log of changes (binlog): which rows of a run's database changed, in which transaction.

Answers to Debezium. Invariants: a transaction is handed on when it is whole, in the order of the log, and once; one
that was prepared (XA) counts when it is committed; after a loss of the connection reading goes on behind the last whole
one. A position says where in the log something is, so that events seen elsewhere can be placed among the changes.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Literal, Self

import pymysql
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.event import HeartbeatLogEvent, QueryEvent, RotateEvent, XAPrepareEvent, XidEvent
from pymysqlreplication.row_event import (
    DeleteRowsEvent,
    PartialUpdateRowsEvent,
    UpdateRowsEvent,
    WriteRowsEvent,
)

from harness.database.endpoint import Endpoint, MySqlConnection
from harness.system.clock import CALENDAR_CLOCK, Deadline, monotonic_us

_ROWS: Final = (WriteRowsEvent, UpdateRowsEvent, PartialUpdateRowsEvent, DeleteRowsEvent)
_READ: Final = (*_ROWS, QueryEvent, XidEvent, XAPrepareEvent, RotateEvent, HeartbeatLogEvent)
_HEARTBEAT_S: Final = 0.1
_AGAIN_S: Final = 0.05
_SILENT_S: Final = 3.0
_LOST_LOG: Final = 1236
_XID: Final = re.compile(r"X'([0-9a-f]*)'\s*,\s*X'([0-9a-f]*)'", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class LogPosition:
    """A place in the log; a later one is greater."""

    file: str
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedChange:
    """One change of one row, by column."""

    op: Literal["insert", "update", "delete"]
    table: str
    was: Mapping[str, Any] | None = None
    """The row before; None for an insert."""
    now: Mapping[str, Any] | None = None
    """The row after; None for a delete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedTransaction:
    """A whole group of the log: the changes of a transaction, or one statement of DDL."""

    end: LogPosition
    seen_us: int
    """When the log was first seen to hold it, by the machine's monotonic clock."""
    changes: Sequence[LoggedChange] = ()
    session: int | None = None
    """The session that wrote it, where the log says so (MySQL)."""
    statement: str = ""
    """The statement, if it is DDL."""


def log_position(connection: MySqlConnection) -> LogPosition:
    """Where the log ends now. Raises pymysql's errors."""
    with connection.cursor() as cursor:
        server: str = connection.get_server_info()  # type: ignore[no-untyped-call]
        cursor.execute(_status_of_log(server))
        file, offset = cursor.fetchone()[:2]
    return LogPosition(file=file, offset=int(offset))


@cache
def _status_of_log(server: str) -> str:
    """The statement for a server of this version: MariaDB, and MySQL before 8.2, know the old one alone."""
    numbers = tuple(map(int, re.findall(r"\d+", server)[:2]))
    is_old = "MariaDB" in server or numbers < (8, 2)
    return "SHOW MASTER STATUS" if is_old else "SHOW BINARY LOG STATUS"


def _place(reader: BinLogStreamReader) -> LogPosition:
    return LogPosition(file=str(reader.log_file), offset=int(reader.log_pos))


class _ConnectionLost(Exception):
    """The reader would connect again by itself, in the middle of a transaction."""


class ChangeLog:
    """Reads the log in a thread of its own while its block lasts. Mutable; every method may be called from any thread.

    `take` gets each whole transaction of the run's database, in that thread.
    """

    def __init__(
        self, root: Endpoint, *, database: str, begin: LogPosition, take: Callable[[LoggedTransaction], None]
    ) -> None:
        self._root = root
        self._database = database
        self._take = take
        self._over = threading.Event()
        self._moved = threading.Condition()
        self._position = begin
        self._resume = begin
        self._group = _Group()
        self._prepared: dict[tuple[str, str], _Group] = {}
        self._thread = threading.Thread(target=self._follow, name="log of changes", daemon=True)
        self.broken = ""
        """Why the log cannot be read any more; empty: it can."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(_SILENT_S)

    @property
    def position(self) -> LogPosition:
        """Behind the last whole transaction that was handed on."""
        with self._moved:
            return self._position

    def wait_for(self, position: LogPosition, *, limit_s: float) -> bool:
        """Waits until everything before `position` was handed on; False: it was not within `limit_s`."""
        deadline = Deadline(limit_s)
        with self._moved:
            while self._position < position and not self.broken and not deadline.passed:
                self._moved.wait(max(0.001, min(deadline.left_s, _HEARTBEAT_S)))
            return self._position >= position

    def _follow(self) -> None:
        logging.getLogger("pymysqlreplication").setLevel(logging.ERROR)
        while not self._over.is_set() and not self.broken:
            try:
                with self._reader() as reader:
                    for event in reader:
                        if self._over.is_set():
                            break
                        self._note(event, _place(reader))
            except pymysql.MySQLError as error:
                if error.args and error.args[0] == _LOST_LOG:
                    self.broken = str(error.args[1:])
            except (_ConnectionLost, OSError):
                pass
            except Exception as error:  # noqa: BLE001 - a row that the library cannot read ends the reading, never the run
                self.broken = f"{type(error).__name__}: {error}"
            self._group = _Group()
            self._over.wait(_AGAIN_S)

    @contextmanager
    def _reader(self) -> Iterator[BinLogStreamReader]:
        connects = 0

        def connected(**settings: Any) -> MySqlConnection:
            nonlocal connects
            connects += 1
            if connects > 2:  # noqa: PLR2004 - the stream, and the one for questions
                raise _ConnectionLost
            # The library's own name for it is one that PyMySQL warns of; a warning may be an error.
            named = {"database" if name == "db" else name: value for name, value in settings.items()}
            return pymysql.connect(**named)

        reader = BinLogStreamReader(
            connection_settings={
                "host": self._root.host,
                "port": self._root.port,
                "user": self._root.user,
                "password": self._root.password,
                "ssl_disabled": True,
                "charset": "utf8mb4",
                "connect_timeout": _SILENT_S,
                "read_timeout": _SILENT_S,
            },
            server_id=2 + os.getpid(),  # another one's than that of a process beside this one
            blocking=True,
            resume_stream=True,
            log_file=self._resume.file,
            log_pos=self._resume.offset,
            only_events=list(_READ),
            only_schemas=[self._database],
            slave_heartbeat=_HEARTBEAT_S,
            pymysql_wrapper=connected,
            enable_logging=False,
        )
        try:
            yield reader
        finally:
            with suppress(Exception):
                reader.close()

    def _note(self, event: object, here: LogPosition) -> None:
        match event:
            case HeartbeatLogEvent() | RotateEvent():
                if not self._group.is_open:
                    self._reach(here)
            case XidEvent():
                self._end(here)
            case XAPrepareEvent():
                xid = (event.xid_gtrid.hex(), event.xid_bqual.hex())
                if event.one_phase:
                    self._end(here)
                else:
                    self._prepared[xid], self._group = self._group, _Group()
                    self._reach(here)
            case QueryEvent():
                self._query(event, here)
            case _:
                self._group.is_open = True
                self._group.changes += _changes(event)

    def _query(self, event: QueryEvent, here: LogPosition) -> None:
        text = re.sub(r"/\*(?![!M]).*?\*/", " ", event.query, flags=re.DOTALL).strip()
        words = text.upper()
        if words == "BEGIN" or words.startswith("XA START"):
            self._group.is_open, self._group.session = True, event.slave_proxy_id
        elif words == "COMMIT":
            self._end(here)
        elif words.startswith(("XA COMMIT", "XA ROLLBACK")):
            found = _XID.search(text)
            group = self._prepared.pop((found[1].lower(), found[2].lower()), None) if found else None
            self._group = group if group and words.startswith("XA COMMIT") else _Group()
            self._end(here)
        elif not words.startswith(("XA END", "SAVEPOINT", "ROLLBACK", "RELEASE")):
            if event.schema.decode(errors="replace") == self._database or self._database in text:
                self._group.statement = text
            self._end(here)

    def _end(self, here: LogPosition) -> None:
        group, self._group = self._group, _Group()
        if group.changes or group.statement:
            self._take(
                LoggedTransaction(
                    end=here,
                    seen_us=monotonic_us(),
                    changes=tuple(group.changes),
                    session=group.session or None,
                    statement=group.statement,
                )
            )
        self._reach(here)

    def _reach(self, here: LogPosition) -> None:
        self._resume = max(self._resume, here)
        with self._moved:
            self._position = max(self._position, here)
            self._moved.notify_all()


class ChangeLogInTurn(ChangeLog):
    """A log that is read when it is asked, in the thread that asks. Mutable."""

    def __enter__(self) -> Self:
        logging.getLogger("pymysqlreplication").setLevel(logging.ERROR)
        self._stack = ExitStack()
        self._events = self._stack.enter_context(self._reader())
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def wait_for(self, position: LogPosition, *, limit_s: float) -> bool:
        """Reads on until `position`."""
        deadline = Deadline(limit_s, clock=CALENDAR_CLOCK)
        while self._position < position and not self.broken and not deadline.passed:
            try:
                self._note(next(iter(self._events)), _place(self._events))
            except Exception as error:  # noqa: BLE001 - as in `_follow`
                self.broken = f"{type(error).__name__}: {error}"
        return self._position >= position


@dataclass(slots=True, kw_only=True)
class _Group:
    """A transaction of which not all was read yet. Mutable."""

    is_open: bool = False
    changes: list[LoggedChange] = field(default_factory=list)
    session: int | None = None
    statement: str = ""


def _changes(event: object) -> Iterator[LoggedChange]:
    match event:
        case WriteRowsEvent():
            for row in event.rows:
                yield LoggedChange(op="insert", table=event.table, now=row["values"])
        case DeleteRowsEvent():
            for row in event.rows:
                yield LoggedChange(op="delete", table=event.table, was=row["values"])
        case UpdateRowsEvent():
            for row in event.rows:
                yield LoggedChange(
                    op="update", table=event.table, was=row["before_values"], now=row["after_values"]
                )
