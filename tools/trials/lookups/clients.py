"""One lookup with three clients: the pool, asyncmy and aiomysql. Each asks again on a new connection after a loss."""

from __future__ import annotations

import asyncio
from typing import Any

import aiomysql
import asyncmy
import pymysql
from asyncmy.errors import MySQLError

PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
QUERY = "SELECT name, city, SLEEP(%s) FROM customer WHERE k = %s"
QUERY_OF_PARTS = QUERY + " AND part = %s"


def question(record: Any) -> tuple[str, tuple[Any, ...]]:
    """The statement for the record's key, and its arguments."""
    pause_s = record.service_ms / 1000
    if isinstance(record.key, tuple):
        return QUERY_OF_PARTS, (pause_s, *record.key)
    return QUERY, (pause_s, record.key)


def results(rows: Any) -> list[dict[str, Any]]:
    """What the lookup returns."""
    return [{"name": row[0], "city": row[1]} for row in rows]


async def by_pool(record: Any, pool: Any) -> list[dict[str, Any]]:
    """The pool that Floodmark hands over."""
    for pause_s in PAUSES_S:
        try:
            return results(await pool.fetch_all(*question(record)))
        except Exception:  # noqa: BLE001 - as a user would, for any error of the database
            await asyncio.sleep(pause_s)
    raise TimeoutError(f"no answer for key {record.key}")


class _Asks:
    """Each driver's pool has the same methods."""

    _pool: Any

    async def __call__(self, record: Any) -> list[dict[str, Any]]:
        for pause_s in PAUSES_S:
            try:
                async with self._pool.acquire() as connection, connection.cursor() as cursor:
                    await cursor.execute(*question(record))
                    return results(await cursor.fetchall())
            except (OSError, asyncio.IncompleteReadError, MySQLError, pymysql.MySQLError):
                await asyncio.sleep(pause_s)
        raise TimeoutError(f"no answer for key {record.key}")

    async def close(self) -> None:
        self._pool.terminate()
        await self._pool.wait_closed()


class ByAsyncmy(_Asks):
    async def open(self, database: Any) -> None:
        self._pool = await asyncmy.create_pool(
            host=database.host, port=database.port, user=database.user, password=database.password,
            database=database.database, autocommit=True, minsize=0, maxsize=20, connect_timeout=2,
        )  # fmt: skip


class ByAiomysql(_Asks):
    async def open(self, database: Any) -> None:
        self._pool = await aiomysql.create_pool(
            host=database.host, port=database.port, user=database.user, password=database.password,
            db=database.database, autocommit=True, minsize=0, maxsize=20, connect_timeout=2,
        )  # fmt: skip
