"""The pool of a user's own lookup at level sim: the interface of `harness.database.pool`, answered from memory.

Statements are executed by an in-memory SQLite when they arrive; `%s` holds a place, `SLEEP(s)` takes virtual time.
Invariant: as there, a cancelled statement's connection is never used again, and a lost one raises
`ConnectionLost`. Deviation: each statement takes any connection of the pool, also inside a `connection()` block.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from harness.database.connection_lost import ConnectionLost, StatementEnded
from harness.database.error_classes import ErrorClass, class_of
from harness.levels.sim.subtask_loop import SubtaskLoop
from harness.sim.client import Client

__all__ = ["MemoryTables", "SimulatedPool", "StatementRefused"]

_MS = 1000


class StatementRefused(Exception):
    """The database cannot execute the statement; at level sim it is SQLite, not MySQL."""


class MemoryTables:
    """The table `customer` of a run, in SQLite. Mutable: whatever statements change."""

    def __init__(self, rows: Iterable[Sequence[Any]]) -> None:
        self._connection = sqlite3.connect(":memory:", isolation_level=None)
        self._connection.create_function("SLEEP", 1, self._sleep)
        self._connection.create_function("REPEAT", 2, lambda text, times: text * times)
        self._connection.execute(
            "CREATE TABLE customer (n INTEGER PRIMARY KEY, k INTEGER, name TEXT, city TEXT, tier INT)"
        )
        self._connection.executemany("INSERT INTO customer (k, name, city, tier) VALUES (?, ?, ?, ?)", rows)
        self._slept_s = 0.0

    def _sleep(self, seconds: float) -> int:
        self._slept_s += float(seconds)
        return 0

    def execute(self, sql: str, args: Sequence[Any]) -> tuple[list[tuple[Any, ...]], int]:
        """All rows, and how long the statement slept (ms)."""
        self._slept_s = 0.0
        rows = self._connection.execute(sql.replace("%s", "?").replace("%%", "%"), tuple(args)).fetchall()
        return rows, round(self._slept_s * _MS)


class _Cursor:
    """One statement at a time. Mutable: holds its rows."""

    def __init__(self, pool: SimulatedPool) -> None:
        self._pool = pool
        self._rows: list[tuple[Any, ...]] = []

    async def execute(self, sql: str, args: Sequence[Any] = ()) -> int:
        """Execute it; how many rows it gives."""
        self._rows = await self._pool.fetch_all(sql, args)
        return len(self._rows)

    async def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, or None."""
        return self._rows.pop(0) if self._rows else None

    async def fetchall(self) -> list[tuple[Any, ...]]:
        """The rows that are left."""
        rows, self._rows = self._rows, []
        return rows


class _Connection:
    """What a `connection()` block holds."""

    def __init__(self, pool: SimulatedPool) -> None:
        self._pool = pool

    @asynccontextmanager
    async def cursor(self) -> AsyncIterator[_Cursor]:
        """A cursor while the block lasts."""
        yield _Cursor(self._pool)


class SimulatedPool:
    """One attempt's; over its client, so over its link and through whatever acts there."""

    def __init__(self, client: Client, tables: MemoryTables, *, loop: SubtaskLoop) -> None:
        self._client = client
        self._tables = tables
        self._loop = loop

    async def fetch_one(self, sql: str, args: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        """The first row of `sql`, or None."""
        rows = await self.fetch_all(sql, args)
        return rows[0] if rows else None

    async def fetch_all(self, sql: str, args: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of `sql`. Raises `ConnectionLost`, `StatementRefused`."""
        future: asyncio.Future[list[tuple[Any, ...]]] = self._loop.create_future()
        refused: list[sqlite3.Error] = []

        def work() -> tuple[Any, int | None, int]:
            try:
                rows, slept_ms = self._tables.execute(sql, args)
            except sqlite3.Error as error:
                refused.append(error)
                return None, None, 0
            return rows, None, slept_ms

        def done(value: Any, code: int | str | None, _nonce: Any) -> None:
            if future.done():
                return
            if code is not None:
                future.set_exception(_error(code))
            elif refused:
                text = f"{refused[0]}: {sql}; at level sim the database is SQLite"
                future.set_exception(StatementRefused(text))
            else:
                future.set_result(value)

        request = self._client.ask(None, service_ms=0, done=done, work=work)
        try:
            return await future
        finally:
            self._client.cancel(request)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[_Connection]:
        """For several statements in a row."""
        yield _Connection(self)


def _error(code: int | str) -> Exception:
    match class_of(code):
        case ErrorClass.RECONNECT:
            return ConnectionLost(code, "the simulated connection is gone")
        case ErrorClass.RETRY | ErrorClass.BACK_OFF:
            return StatementEnded(code, "the simulated server cannot do it now")
        case ErrorClass.DONE | ErrorClass.FAIL:
            return StatementRefused(f"the database answers with error {code}")
