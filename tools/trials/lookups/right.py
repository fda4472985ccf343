"""Lookups that are right, each of another shape."""

from __future__ import annotations

import asyncio
from typing import Any

from harness.testing import MayAskAgain

QUERY = "SELECT name, city, tier, SLEEP(%s) FROM customer WHERE k = %s ORDER BY n"
TIME_TO_LIVE_S = 1.0
LIMIT_S = 0.1


def _values(rows: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [{"name": row[0], "city": row[1], "tier": row[2]} for row in rows]


async def _asked(record: Any, pool: Any) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = await pool.fetch_all(QUERY, (record.service_ms / 1000, record.key))
    return rows


async def plain(record: Any, pool: Any) -> list[dict[str, Any]]:
    """That of the README."""
    row = await pool.fetch_one("SELECT name, city, tier FROM customer WHERE k = %s", (record.key,))
    return [] if row is None else [{"name": row[0], "city": row[1], "tier": row[2]}]


async def with_backoff(record: Any, pool: Any) -> list[dict[str, Any]]:
    """Asks again after a lost connection, with growing pauses and an end."""
    for pause_s in (0.05, 0.1, 0.2, 0.4, 0.8, 1.6):
        try:
            return _values(await _asked(record, pool))
        except MayAskAgain:
            await asyncio.sleep(pause_s)
    return _values(await _asked(record, pool))


async def several_results(record: Any, pool: Any) -> list[dict[str, Any]]:
    """Three results for each row."""
    return [{**value, "part": part} for value in await with_backoff(record, pool) for part in range(3)]


async def every_third_key_none(record: Any, pool: Any) -> list[dict[str, Any]] | None:
    """No result for every third key."""
    values = await with_backoff(record, pool)
    return None if record.key % 3 == 0 else values


class _CachedForASecond:
    """Remembers rows for a second; the table does not change meanwhile. Mutable."""

    def __init__(self) -> None:
        self._known: dict[Any, tuple[float, list[dict[str, Any]]]] = {}

    async def __call__(self, record: Any, pool: Any) -> list[dict[str, Any]]:
        now_s = asyncio.get_running_loop().time()
        known = self._known.get(record.key)
        if known is None or not known[0] <= now_s < known[0] + TIME_TO_LIVE_S:
            known = (now_s, await with_backoff(record, pool))
            self._known[record.key] = known
        return [dict(value) for value in known[1]]


cached_for_a_second = _CachedForASecond()


_RUNNING: dict[Any, asyncio.Task[list[tuple[Any, ...]]]] = {}


async def shares_a_shielded_task(record: Any, pool: Any) -> list[dict[str, Any]]:
    """Calls of one key share a task that no timeout of theirs ends."""
    if record.key not in _RUNNING:
        task = _RUNNING[record.key] = asyncio.create_task(_asked(record, pool))
        task.add_done_callback(lambda task: _RUNNING.pop(record.key, None))
    return _values(await asyncio.shield(_RUNNING[record.key]))


class TooSlow(Exception):
    """The database did not answer in the function's own time."""


async def gives_up_early(record: Any, pool: Any) -> list[dict[str, Any]]:
    """Has a limit of its own, which fails its task when it passes."""
    task = asyncio.create_task(_asked(record, pool))
    _, late = await asyncio.wait([task], timeout=LIMIT_S)
    if late:
        task.cancel()
        raise TooSlow(record.key)
    return _values(task.result())


async def asks_on_its_connection(record: Any, pool: Any) -> list[dict[str, Any]]:
    """Sends two statements on one connection."""
    async with pool.connection() as connection, connection.cursor() as cursor:
        await cursor.execute(QUERY, (record.service_ms / 1000, record.key))
        rows = await cursor.fetchall()
        await cursor.execute(QUERY, (0, record.key))
        await cursor.fetchall()
        return _values(rows)
