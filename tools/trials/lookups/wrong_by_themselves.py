"""Lookups that are wrong alone and without faults: only a function of the user's own, `expected`, can tell."""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ["constant", "doubles", "drops", "expected_rows", "wrong_key"]

QUERY = "SELECT name, city, tier, SLEEP(%s) FROM customer WHERE k = %s ORDER BY n"
ONE_IN = 20
"""Which keys the mistakes hit."""


def expected_rows(record: Any, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What each of these lookups should return: name, city and tier of each row of the record's key."""
    del record
    return [{"name": row["name"], "city": row["city"], "tier": row["tier"]} for row in rows]


async def _of_key(record: Any, pool: Any, key: Any) -> list[dict[str, Any]]:
    rows = await pool.fetch_all(QUERY, (record.service_ms / 1000, key))
    return [{"name": row[0], "city": row[1], "tier": row[2]} for row in rows]


async def wrong_key(record: Any, pool: Any) -> list[dict[str, Any]]:
    """Asks for the next key where the key is a multiple of twenty."""
    return await _of_key(record, pool, record.key + 1 if record.key % ONE_IN == 1 else record.key)


async def doubles(record: Any, pool: Any) -> list[dict[str, Any]]:
    """Returns some rows twice."""
    found = await _of_key(record, pool, record.key)
    return found * 2 if record.key % ONE_IN == 1 else found


async def drops(record: Any, pool: Any) -> list[dict[str, Any]]:
    """Returns no result for some keys that have a row."""
    found = await _of_key(record, pool, record.key)
    return [] if record.key % ONE_IN == 1 else found


_begun: set[asyncio.Task[Any]] = set()


async def constant(record: Any, pool: Any) -> list[dict[str, Any]]:
    """Asks, does not wait for the answer, and returns a constant."""
    asking = asyncio.ensure_future(_of_key(record, pool, record.key))
    _begun.add(asking)
    asking.add_done_callback(_ended)
    return [{"name": "unknown", "city": "unknown", "tier": 0}]


def _ended(asking: asyncio.Task[Any]) -> None:
    _begun.discard(asking)
    if not asking.cancelled():
        asking.exception()
