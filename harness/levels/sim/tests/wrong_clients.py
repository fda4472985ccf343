"""Lookups whose own client is used wrongly, for level sim; `wrong_clients:NAME` in its tests."""

from __future__ import annotations

import asyncio
from typing import Any

import aiomysql
import asyncmy
import pymysql

from harness.levels.live.tests.own_clients import QUERY, AsyncMySql


class LimitsTheQueryOnly:
    """aiomysql's `release` of a connection that a limit has closed wakes nobody who waits for one."""

    async def open(self, database: Any) -> None:
        self._pool = await aiomysql.create_pool(
            host=database.host, port=database.port, user=database.user, password=database.password,
            db=database.database, autocommit=True, minsize=1, maxsize=2,
        )  # fmt: skip

    async def __call__(self, record: Any) -> Any:
        async with self._pool.acquire() as connection:
            try:
                async with asyncio.timeout(0.06), connection.cursor() as cursor:
                    await cursor.execute(QUERY, (record.service_ms / 1000, record.key))
                    return {"name": (await cursor.fetchone())[0]}
            except (TimeoutError, OSError, pymysql.MySQLError, asyncio.IncompleteReadError):
                return {"name": None}

    async def close(self) -> None:
        self._pool.terminate()
        await self._pool.wait_closed()


class ShieldsTheQuery:
    """A query that goes on when its call is cancelled leaves its answer to the next call."""

    async def open(self, database: Any) -> None:
        self._turn = asyncio.Lock()
        self._connection = await asyncmy.connect(
            host=database.host, port=database.port, user=database.user, password=database.password,
            database=database.database, autocommit=True,
        )  # fmt: skip

    async def __call__(self, record: Any) -> Any:
        async with self._turn:
            row = await asyncio.shield(self._ask(record))
        return None if row is None else {"name": row[0]}

    async def _ask(self, record: Any) -> Any:
        async with self._connection.cursor() as cursor:
            await cursor.execute(QUERY, (record.service_ms / 1000, record.key))
            return await cursor.fetchone()

    async def close(self) -> None:
        self._connection.close()


class AsksAnotherServer:
    """Has a cache elsewhere, and lives without it."""

    async def open(self, database: Any) -> None:
        """Needs nothing."""

    async def __call__(self, record: Any) -> Any:
        try:
            await asyncio.open_connection("127.0.0.1", 6379)
        except Exception:  # noqa: BLE001 - as such code does
            return {"name": None}


class AsksForUuids(AsyncMySql):
    """Lets the server draw what no seed decides."""

    async def ask(self, record: Any) -> Any:
        async with self._pool.acquire() as connection, connection.cursor() as cursor:
            await cursor.execute("SELECT name, UUID() FROM customer WHERE k = %s", (record.key,))
            return await cursor.fetchone()
