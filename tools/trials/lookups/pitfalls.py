"""Lookups with right answers and a mistake in how they use the event loop or the pool."""

from __future__ import annotations

import asyncio
import time  # noqa: TID251 - the mistake that is shown blocks with it
from typing import Any

import asyncmy
import pymysql

from harness.testing import MayAskAgain

QUERY = "SELECT name, city, tier, SLEEP(%s) FROM customer WHERE k = %s ORDER BY n"


def _values(rows: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [{"name": row[0], "city": row[1], "tier": row[2]} for row in rows]


async def _asked(record: Any, pool: Any) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = await pool.fetch_all(QUERY, (record.service_ms / 1000, record.key))
    return rows


async def blocks(record: Any, pool: Any) -> list[dict[str, Any]]:
    """Sleeps on the task's thread."""
    time.sleep(0.02)  # noqa: ASYNC251 - the mistake that is shown
    return _values(await _asked(record, pool))


async def never_gives_back(record: Any, pool: Any) -> list[dict[str, Any]]:
    """Takes a connection out of the pool for one record in ten, and keeps it."""
    rows = await _asked(record, pool)
    if record.id % 10 == 0:
        await pool.connection().__aenter__()
    return _values(rows)


async def retries_for_ever(record: Any, pool: Any) -> list[dict[str, Any]]:
    """Asks again at once, without a pause and without an end."""
    while True:
        try:
            return _values(await _asked(record, pool))
        except MayAskAgain:
            await asyncio.sleep(0)


class ConnectsEachTime:
    """Has a client of its own, and opens and closes a connection in each call."""

    async def open(self, database: Any) -> None:
        """Keeps the address."""
        self._database = database

    async def __call__(self, record: Any) -> list[dict[str, Any]]:
        database = self._database
        connection = await asyncmy.connect(
            host=database.host,
            port=database.port,
            user=database.user,
            password=database.password,
            db=database.database,
        )
        try:
            async with connection.cursor() as cursor:
                await cursor.execute(QUERY, (record.service_ms / 1000, record.key))
                return _values(list(await cursor.fetchall()))
        finally:
            connection.close()


class BlockingConnectsEachTime:
    """The same with a client that blocks, on threads."""

    def open(self, database: Any) -> None:
        """Keeps the address."""
        self._database = database

    def __call__(self, record: Any) -> list[dict[str, Any]]:
        database = self._database
        connection = pymysql.connect(
            host=database.host,
            port=database.port,
            user=database.user,
            password=database.password,
            database=database.database,
        )
        try:
            with connection.cursor() as cursor:
                cursor.execute(QUERY, (record.service_ms / 1000, record.key))
                return _values(list(cursor.fetchall()))
        finally:
            connection.close()


async def holds_and_asks(record: Any, pool: Any) -> list[dict[str, Any]]:
    """Asks the pool for a second connection while it holds one."""
    async with pool.connection() as connection, connection.cursor() as cursor:
        await cursor.execute(QUERY, (record.service_ms / 1000, record.key))
        rows = list(await cursor.fetchall())
        await pool.fetch_one(QUERY, (0, record.key))
    return _values(rows)
