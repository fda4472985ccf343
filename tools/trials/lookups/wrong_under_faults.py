"""Lookups that answer rightly when they are asked alone and without faults, and wrongly otherwise."""

from __future__ import annotations

import asyncio
from typing import Any

from harness.testing import MayAskAgain

QUERY = "SELECT name, city, tier, SLEEP(%s) FROM customer WHERE k = %s ORDER BY n"
MARKED = 77
"""The record at which some of these lookups end what they must not end."""


def _values(rows: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [{"name": row[0], "city": row[1], "tier": row[2]} for row in rows]


async def _asked(record: Any, pool: Any) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = await pool.fetch_all(QUERY, (record.service_ms / 1000, record.key))
    return rows


async def swallows_into_nothing(record: Any, pool: Any) -> list[dict[str, Any]]:
    """A lost connection becomes a record without results."""
    try:
        return _values(await _asked(record, pool))
    except MayAskAgain:
        return []


async def swallows_into_none(record: Any, pool: Any) -> list[dict[str, Any]] | None:
    """Any error becomes `None`."""
    try:
        return _values(await _asked(record, pool))
    except Exception:  # noqa: BLE001 - the mistake that is shown
        return None


class _SharedCursor:
    """One place for the rows of all calls, as one cursor that all coroutines share is. Mutable."""

    def __init__(self) -> None:
        self._rows: list[tuple[Any, ...]] = []

    async def __call__(self, record: Any, pool: Any) -> list[dict[str, Any]]:
        self._rows = await _asked(record, pool)
        await asyncio.sleep(0.002)  # fetchall on a cursor that another call has used meanwhile
        rows, self._rows = self._rows, []
        return _values(rows)


class _SharedAttribute:
    """The key of the call stands in an attribute that all calls share. Mutable."""

    def __init__(self) -> None:
        self._key: Any = None

    async def __call__(self, record: Any, pool: Any) -> list[dict[str, Any]]:
        self._key = record.key
        await asyncio.sleep(0.001)
        rows = await pool.fetch_all(QUERY, (record.service_ms / 1000, self._key))
        return _values(rows)


class _AnswerOfTheCallBefore:
    """A call that is cancelled leaves its reply unread; the next call reads that one. Mutable."""

    def __init__(self) -> None:
        self._unread: list[asyncio.Future[list[tuple[Any, ...]]]] = []

    async def __call__(self, record: Any, pool: Any) -> list[dict[str, Any]]:
        self._unread.append(asyncio.ensure_future(_asked(record, pool)))
        mine = self._unread[-1]
        try:
            await asyncio.shield(mine)
        except asyncio.CancelledError:
            raise  # the reply stays
        except MayAskAgain:
            self._unread.remove(mine)
            raise
        return _values(await self._unread.pop(0))


class _CacheForEver:
    """Remembers each key's rows and never asks again. Mutable."""

    def __init__(self) -> None:
        self._known: dict[Any, list[tuple[Any, ...]]] = {}

    async def __call__(self, record: Any, pool: Any) -> list[dict[str, Any]]:
        if record.key not in self._known:
            self._known[record.key] = await _asked(record, pool)
        return _values(self._known[record.key])


class _Breaker:
    """Answers with a default for a while after an error, as a circuit breaker with a fallback does. Mutable."""

    def __init__(self) -> None:
        self._open_until_s = 0.0

    async def __call__(self, record: Any, pool: Any) -> list[dict[str, Any]]:
        now_s = asyncio.get_running_loop().time()
        if now_s < self._open_until_s:
            return _values([("unknown", "unknown", 0)])
        try:
            return _values(await _asked(record, pool))
        except Exception:
            self._open_until_s = now_s + 0.5
            raise


cursor_shared = _SharedCursor()
attribute_shared = _SharedAttribute()
answer_of_the_call_before = _AnswerOfTheCallBefore()
cache_for_ever = _CacheForEver()
falls_back = _Breaker()


_RUNNING: dict[Any, asyncio.Task[list[tuple[Any, ...]]]] = {}


async def cancels_for_all(record: Any, pool: Any) -> list[dict[str, Any]]:
    """Calls of one key share a task, and the timeout of one cancels it for all, also for those that come later."""
    if record.key not in _RUNNING:
        _RUNNING[record.key] = asyncio.create_task(_asked(record, pool))
    return _values(await _RUNNING[record.key])


async def exits(record: Any, pool: Any) -> list[dict[str, Any]]:
    """Ends the program at one record."""
    if record.id == MARKED:
        raise SystemExit(0)
    return _values(await _asked(record, pool))


async def cancels_itself(record: Any, pool: Any) -> list[dict[str, Any]]:
    """Raises a cancellation that nobody asked for, at one record."""
    if record.id == MARKED:
        raise asyncio.CancelledError
    return _values(await _asked(record, pool))
