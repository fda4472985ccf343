"""The probe of a database: a client of the harness's own that appends to a list and reads it back, by the same proxy.

Answers to Jepsen's append workload. What it was acknowledged and does not find again was lost by the database, whatever
the system under test did (V22). Invariants: values rise, so the list has one right order; an append is repeated by
nobody; every wait is bounded; the last operation is a reading, if the database answers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import pymysql

from harness.database.driver import Cursor
from harness.database.endpoint import Endpoint, MySqlConnection, connect
from harness.history.probe import ProbeOperation
from harness.system.clock import Deadline, monotonic_us
from harness.system.json_types import Json

OF_PROBE: Final = "_probe"
"""What the database of the probe is called after the run's."""
_MAKE: Final = "CREATE TABLE IF NOT EXISTS probe (n BIGINT AUTO_INCREMENT PRIMARY KEY, v BIGINT NOT NULL)"
_ISOLATION: Final = "SHOW SESSION VARIABLES WHERE Variable_name IN ('transaction_isolation', 'tx_isolation')"
"""The second name is MariaDB's before 11.1."""
_EVERY_S: Final = 0.03
_READ_EVERY: Final = 10
"""Appends between two readings."""
_STATEMENT_S: Final = 2.0
_LAST_S: Final = 10.0
"""How long the last reading is tried."""
_BETWEEN_TRIES_S: Final = 0.05


@dataclass(slots=True, kw_only=True)
class CommitProbe:
    """Call `make` once, then `turn` often, and `read_at_last` in the end. Mutable: its connection and operations."""

    endpoint: Endpoint
    operations: list[ProbeOperation] = field(default_factory=list)
    _connection: MySqlConnection | None = None
    _appended: int = 0

    def make(self) -> None:
        """Makes the list. Raises pymysql's errors."""
        with self._opened().cursor() as cursor:
            cursor.execute(_MAKE)

    def turn(self) -> None:
        """One append; every tenth time a reading, too."""
        self._appended += 1
        value = self._appended
        self._done("append", lambda cursor: self._append(cursor, value), value=value)
        if value % _READ_EVERY == 0:
            self.read()

    def read(self) -> bool:
        """Reads the list; returns whether it was answered."""
        return self._done("read", self._read)

    def read_at_last(self) -> None:
        """Reads the list when all is over, on a connection of its own."""
        self.close()
        deadline, over = Deadline(_LAST_S), threading.Event()
        while not self.read() and not deadline.passed:
            over.wait(_BETWEEN_TRIES_S)
        self.close()

    def _append(self, cursor: Cursor, value: int) -> Json:
        cursor.execute("SELECT @@server_id")
        server = int(cursor.fetchone()[0])
        cursor.connection.rollback()
        cursor.execute("INSERT INTO probe (v) VALUES (%s)", (value,))
        cursor.connection.commit()
        return {"server": server}

    def _read(self, cursor: Cursor) -> Json:
        cursor.execute("SELECT @@server_id")
        server = cursor.fetchone()[0]
        cursor.execute(_ISOLATION)
        isolation = cursor.fetchone()[1]
        cursor.execute("SELECT v FROM probe ORDER BY n")
        seen = [int(value) for (value,) in cursor.fetchall()]
        cursor.connection.rollback()
        return {"server": int(server), "isolation": str(isolation), "seen": seen}

    def _done(self, do: Literal["append", "read"], act: Callable[[Cursor], Json], **told: Any) -> bool:
        began = monotonic_us()
        outcome: Literal["ok", "fail", "unknown"] = "ok"
        try:
            with self._opened().cursor() as cursor:
                told |= act(cursor)
        except (pymysql.MySQLError, OSError) as error:
            # An answer that did not come says nothing; such a refusal says that the server did not do it.
            outcome = "fail" if error.args and error.args[0] in _READ_ONLY else "unknown"
            self.close()
        ended = monotonic_us()
        self.operations.append(ProbeOperation(began=began, ended=ended, do=do, outcome=outcome, **told))
        return outcome == "ok"

    def _opened(self) -> MySqlConnection:
        if self._connection is None:
            self._connection = connect(self.endpoint, statement_s=_STATEMENT_S)
        return self._connection

    def close(self) -> None:
        """Drops the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection._force_close()  # type: ignore[attr-defined]  # noqa: SLF001 - the polite close() waits for the server


_READ_ONLY: Final = frozenset({1290, 1836})


@contextmanager
def probing(endpoint: Endpoint) -> Iterator[CommitProbe]:
    """A probe at work in a thread of its own while the block lasts; afterwards it has read the list at last."""
    probe, over = CommitProbe(endpoint=endpoint), threading.Event()
    probe.make()

    def work() -> None:
        while not over.wait(_EVERY_S):
            probe.turn()

    thread = threading.Thread(target=work, name="probe of the database", daemon=True)
    thread.start()
    try:
        yield probe
    finally:
        over.set()
        thread.join(_LAST_S)
        probe.read_at_last()
