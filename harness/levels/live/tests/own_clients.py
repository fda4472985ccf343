"""Lookups with a client of their own, a right one and a wrong one of each driver; `own_clients:NAME` in the tests.

The right ones ask again on a new connection. The wrong ones share one connection or session among all calls.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import aiomysql
import asyncmy
import pymysql
from asyncmy.errors import MySQLError as AsyncmyError
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

QUERY = "SELECT name, SLEEP(%s) FROM customer WHERE k = %s"
PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
LOST = (OSError, asyncio.IncompleteReadError, AsyncmyError, pymysql.MySQLError, DBAPIError)


class _Asks:
    """Asks again after a lost connection."""

    async def ask(self, record: Any) -> Any:
        raise NotImplementedError

    async def __call__(self, record: Any) -> Any:
        for pause_s in PAUSES_S:
            try:
                row = await self.ask(record)
            except LOST:
                await asyncio.sleep(pause_s)
            else:
                return None if row is None else {"name": row[0]}
        raise TimeoutError(f"no answer for key {record.key}")


class _AsksAPool(_Asks):
    """asyncmy and aiomysql have pools with the same methods."""

    _pool: Any

    async def ask(self, record: Any) -> Any:
        async with self._pool.acquire() as connection, connection.cursor() as cursor:
            await cursor.execute(QUERY, (record.service_ms / 1000, record.key))
            return await cursor.fetchone()

    async def close(self) -> None:
        self._pool.terminate()
        await self._pool.wait_closed()


class AsyncMySql(_AsksAPool):
    async def open(self, database: Any) -> None:
        self._pool = await asyncmy.create_pool(
            host=database.host, port=database.port, user=database.user, password=database.password,
            database=database.database, autocommit=True, minsize=0, maxsize=20, connect_timeout=2,
        )  # fmt: skip


class AioMySql(_AsksAPool):
    async def open(self, database: Any) -> None:
        self._pool = await aiomysql.create_pool(
            host=database.host, port=database.port, user=database.user, password=database.password,
            db=database.database, autocommit=True, minsize=0, maxsize=20, connect_timeout=2,
        )  # fmt: skip


class SqlAlchemy(_Asks):
    async def open(self, database: Any) -> None:
        self._engine = create_async_engine(
            database.url("asyncmy"), pool_size=20, max_overflow=0, connect_args={"connect_timeout": 2}
        )

    async def ask(self, record: Any) -> Any:
        async with self._engine.connect() as connection:
            return await self.one(connection, record)

    async def one(self, connection: Any, record: Any) -> Any:
        query = text("SELECT name, SLEEP(:pause) FROM customer WHERE k = :k")
        found = await connection.execute(query, {"pause": record.service_ms / 1000, "k": record.key})
        return found.first()

    async def close(self) -> None:
        await self._engine.dispose()


class ThreadedPyMySql:
    """Blocks; each thread has a connection."""

    def open(self, database: Any) -> None:
        self._database = database
        self._of_thread = threading.local()
        self._opened: list[Any] = []

    def __call__(self, record: Any) -> Any:
        for pause_s in PAUSES_S:
            try:
                with self.connection().cursor() as cursor:
                    cursor.execute(QUERY, (record.service_ms / 1000, record.key))
                    row = cursor.fetchone()
            except (pymysql.MySQLError, OSError):
                self._of_thread.connection = None
                threading.Event().wait(pause_s)
            else:
                return None if row is None else {"name": row[0]}
        raise TimeoutError(f"no answer for key {record.key}")

    def connection(self) -> Any:
        if getattr(self._of_thread, "connection", None) is None:
            self._of_thread.connection = self.connected()
        return self._of_thread.connection

    def connected(self) -> Any:
        # Without `ssl_disabled` PyMySQL reads all certificates of the machine for each connection, 45 ms of processor:
        # the first calls of 100 threads then take 2 s to 5 s, with a timeout of 5 s and without any fault.
        found = pymysql.connect(
            host=self._database.host, port=self._database.port, user=self._database.user,
            password=self._database.password, database=self._database.database, autocommit=True,
            connect_timeout=2, read_timeout=5, ssl_disabled=True,
        )  # fmt: skip
        self._opened.append(found)
        return found

    def close(self) -> None:
        for connection in self._opened:
            if connection.open:
                connection.close()


class SharedAsyncMySql(AsyncMySql):
    async def open(self, database: Any) -> None:
        await super().open(database)
        self._one = await self._pool.acquire()

    async def __call__(self, record: Any) -> Any:
        async with self._one.cursor() as cursor:
            await cursor.execute(QUERY, (record.service_ms / 1000, record.key))
            row = await cursor.fetchone()
        return None if row is None else {"name": row[0]}


class SharedAioMySql(AioMySql):
    async def open(self, database: Any) -> None:
        await super().open(database)
        self._one = await self._pool.acquire()

    async def __call__(self, record: Any) -> Any:
        async with self._one.cursor() as cursor:
            await cursor.execute(QUERY, (record.service_ms / 1000, record.key))
            row = await cursor.fetchone()
        return None if row is None else {"name": row[0]}


class SharedSqlAlchemy(SqlAlchemy):
    """Shares a session; SQLAlchemy lets calls wait for one another on a connection, but not on a session."""

    async def open(self, database: Any) -> None:
        await super().open(database)
        self._one = AsyncSession(self._engine)

    async def __call__(self, record: Any) -> Any:
        row = await self.one(self._one, record)
        return None if row is None else {"name": row[0]}

    async def close(self) -> None:
        await self._one.close()
        await super().close()


class SharedPyMySql(ThreadedPyMySql):
    def open(self, database: Any) -> None:
        super().open(database)
        self._one = self.connected()

    def __call__(self, record: Any) -> Any:
        with self._one.cursor() as cursor:
            cursor.execute(QUERY, (record.service_ms / 1000, record.key))
            row = cursor.fetchone()
        return None if row is None else {"name": row[0]}


class Charges(AsyncMySql):
    """Reads its own table, and writes one row for each record, under a key that its id gives."""

    write = "INSERT IGNORE INTO audit (n, order_id) VALUES (%s, %s)"

    async def ask(self, record: Any) -> Any:
        async with self._pool.acquire() as connection, connection.cursor() as cursor:
            await self.charge(cursor, record)
            await cursor.execute(
                "SELECT CONCAT(name, %s), SLEEP(%s) FROM product WHERE sku = %s",
                (f" x {record.amount}", record.service_ms / 1000, record.key),
            )
            return await cursor.fetchone()

    async def charge(self, cursor: Any, record: Any) -> None:
        await cursor.execute(self.write, (record.id, record.id))


class ChargesAgain(Charges):
    """Asks again after a write that may have happened, without a key."""

    async def charge(self, cursor: Any, record: Any) -> None:
        await cursor.execute("INSERT INTO audit (order_id) VALUES (%s)", (record.id,))


class Names(AsyncMySql):
    """Reads the name of its record's product in its own table."""

    async def ask(self, record: Any) -> Any:
        async with self._pool.acquire() as connection, connection.cursor() as cursor:
            await cursor.execute("SELECT name FROM product WHERE sku = %s", (self.sku(record),))
            return await cursor.fetchone()

    def sku(self, record: Any) -> int:
        return int(record.key)


class NamesOfAnother(Names):
    """Reads that of another product for one key."""

    def sku(self, record: Any) -> int:
        return 8 if record.key == 7 else int(record.key)


class OneNameForAll(Names):
    """Reads that of one product, whatever the key."""

    def sku(self, record: Any) -> int:
        return 7


def names(record: Any, rows: Any) -> Any:
    """What `Names` returns."""
    return [{"name": row["name"]} for row in rows if row.get("sku") == record.key]


class LeavesAThread(AsyncMySql):
    """Begins a thread that never ends."""

    async def open(self, database: Any) -> None:
        threading.Thread(target=threading.Event().wait).start()
        await super().open(database)


class ChargesNotAll(Charges):
    """Loses the errors of its writes."""

    async def __call__(self, record: Any) -> Any:
        try:
            async with self._pool.acquire() as connection, connection.cursor() as cursor:
                await cursor.execute("DO SLEEP(%s)", (record.service_ms / 1000,))
                await self.charge(cursor, record)
        except LOST:
            pass
        return {"name": record.key}


class FailsToOpen(AsyncMySql):
    async def open(self, database: Any) -> None:
        raise ValueError("no")


class FailsToClose(AsyncMySql):
    async def close(self) -> None:
        await super().close()
        raise ValueError("no")
