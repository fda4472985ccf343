"""Lookups with right answers and a mistake in how they use the event loop or the pool."""

from __future__ import annotations

import asyncio
import time  # noqa: TID251 - the mistake that is shown blocks with it
from typing import Any

from harness.database.pool import MayAskAgain

__all__ = ["blocks", "never_gives_back", "retries_for_ever"]

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
