"""Lookups as strangers write them, right and wrong, for the tests of the value oracle."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from harness.testing import MayAskAgain

QUERY = "SELECT name, city, tier FROM customer WHERE k = %s ORDER BY n"
KEYS = 12

asked: list[Any] = []
"""The keys of all calls of `retries` in this process."""


async def _ask(key: Any, pool: Any) -> list[dict[str, Any]]:
    for pause_s in (0.05, 0.1, 0.2, 0.4):
        try:
            rows = await pool.fetch_all(QUERY, (key,))
        except MayAskAgain:
            await asyncio.sleep(pause_s)
        else:
            return [{"name": row[0], "city": row[1], "tier": row[2]} for row in rows]
    raise TimeoutError(f"no answer for key {key}")


# ------------------------------------------------------------------------------------------------- right


async def retries(record: Any, pool: Any) -> list[dict[str, Any]]:
    asked.append(record.key)
    return await _ask(record.key, pool)


async def several(record: Any, pool: Any) -> list[Any]:
    return [part for row in await _ask(record.key, pool) for part in (row, row["name"])]


async def none_for_every_third_key(record: Any, pool: Any) -> list[Any] | None:
    rows = await _ask(record.key, pool)
    return None if record.key % 3 == 0 else rows


async def one_dict(record: Any, pool: Any) -> dict[str, Any]:
    (row,) = await _ask(record.key, pool)
    return row


async def one_or_none(record: Any, pool: Any) -> dict[str, Any] | None:
    rows = await _ask(record.key, pool)
    return rows[0] if rows else None


async def tuples(record: Any, pool: Any) -> list[Any]:
    return [(row["name"], row["tier"]) for row in await _ask(record.key, pool)]


async def with_the_record(record: Any, pool: Any) -> list[Any]:
    return [{**row, "id": record.id} for row in await _ask(record.key, pool)]


async def with_the_service_time(record: Any, pool: Any) -> list[Any]:
    return [{**row, "ms": record.service_ms} for row in await _ask(record.key, pool)]


class _Cache:
    """Keeps answers for half a second; the table does not change."""

    def __init__(self) -> None:
        self._kept: dict[Any, tuple[float, list[Any]]] = {}

    async def __call__(self, record: Any, pool: Any) -> list[Any]:
        now_s = asyncio.get_running_loop().time()
        kept = self._kept.get(record.key)
        if kept is None or kept[0] < now_s:
            kept = self._kept[record.key] = (now_s + 0.5, await _ask(record.key, pool))
        return kept[1]


caches = _Cache()


class _StaleCache:
    """Keeps answers for ever, whatever becomes of the table."""

    def __init__(self) -> None:
        self._kept: dict[Any, list[Any]] = {}

    async def __call__(self, record: Any, pool: Any) -> list[Any]:
        if record.key not in self._kept:
            self._kept[record.key] = await _ask(record.key, pool)
        return self._kept[record.key]


caches_for_ever = _StaleCache()


# ------------------------------------------------------------------- wrong under faults, or several at a time


async def swallows(record: Any, pool: Any) -> list[Any] | None:
    try:
        rows = await pool.fetch_all(QUERY, (record.key,))
    except Exception:  # noqa: BLE001 - the mistake
        return None
    return [{"name": row[0], "city": row[1], "tier": row[2]} for row in rows]


class _Shared:
    """Keeps the key of the present call in an attribute."""

    key: Any = None

    async def __call__(self, record: Any, pool: Any) -> list[Any]:
        self.key = record.key
        await asyncio.sleep(0.001)
        return await _ask(self.key, pool)


shares_an_attribute = _Shared()


async def forgets_a_task(record: Any, pool: Any) -> list[Any]:
    """Right, but leaves a task behind that nothing refers to, so that it ends when it is collected."""

    async def waits() -> None:
        await asyncio.get_running_loop().create_future()

    asyncio.ensure_future(waits())  # noqa: RUF006 - the mistake
    return await _ask(record.key, pool)


async def gives_back_too_early(record: Any, pool: Any) -> list[dict[str, Any]]:
    """Gives its connection back after 20 ms, answered or not, and asks again."""
    rows: list[Any] = []
    while not rows:
        async with pool.connection() as connection, connection.cursor() as cursor:
            slow = f"{QUERY[: QUERY.index(' FROM')]}, SLEEP(%s){QUERY[QUERY.index(' FROM') :]}"
            asking = asyncio.ensure_future(cursor.execute(slow, (record.service_ms / 1000, record.key)))
            answered, _ = await asyncio.wait([asking], timeout=0.02)
            rows = await cursor.fetchall() if answered else []
    return [{"name": row[0], "city": row[1], "tier": row[2]} for row in rows]


async def call_before(record: Any, pool: Any) -> list[Any]:
    """A connection that is given back with an unread reply gives it to the next call."""
    rows = await _ask(record.key, pool)
    before: list[Any] = getattr(pool, "unread", rows)
    pool.unread = rows
    return before


# ----------------------------------------------------------------------------------------- wrong by itself


async def wrong_key(record: Any, pool: Any) -> list[Any]:
    return await _ask(record.key + 1 if record.key == 3 else record.key, pool)


async def doubles(record: Any, pool: Any) -> list[Any]:
    return await _ask(record.key, pool) * (2 if record.key == 3 else 1)


async def drops(record: Any, pool: Any) -> list[Any]:
    return [] if record.key == 3 else await _ask(record.key, pool)


async def constant(record: Any, pool: Any) -> dict[str, Any]:
    del record, pool
    return {"ok": True}


calls = [0]


async def counts(record: Any, pool: Any) -> int:
    del record, pool
    calls[0] += 1
    return calls[0]


async def fails(record: Any, pool: Any) -> None:
    raise ValueError(f"nothing for key {record.key}")


async def fails_for_one(record: Any, pool: Any) -> list[Any]:
    if record.key == 3:
        raise ValueError("not three")
    return await _ask(record.key, pool)


async def fails_first(record: Any, pool: Any) -> list[Any]:
    calls[0] += 1
    if calls[0] == 1:
        raise ValueError("not yet")
    return await _ask(record.key, pool)


async def never_ends(record: Any, pool: Any) -> None:
    del record, pool
    await asyncio.sleep(10**6)


async def returns_a_set(record: Any, pool: Any) -> set[Any]:
    del pool
    return {record.key}


async def ends_the_process(record: Any, pool: Any) -> None:
    del record, pool
    os._exit(0)


# ------------------------------------------------------------------------------------------------ expected


def stated(record: Any, rows: list[dict[str, Any]]) -> list[Any]:
    assert all(row["k"] == record.key for row in rows)
    return [{name: row[name] for name in ("name", "city", "tier")} for row in rows]


def stated_with_the_record(record: Any, rows: list[dict[str, Any]]) -> list[Any]:
    return [{**row, "id": record.id} for row in stated(record, rows)]


def stated_as_a_dict(record: Any, rows: list[dict[str, Any]]) -> dict[str, Any]:
    del record
    return rows[0]
