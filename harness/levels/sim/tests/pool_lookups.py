"""Lookups with the pool whose SQL only a real server answers, right and wrong."""

from __future__ import annotations

import asyncio
from typing import Any

_PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)


async def _again(ask: Any) -> Any:
    for pause_s in _PAUSES_S:
        try:
            return await ask()
        except Exception:  # noqa: BLE001 - whatever the client raises
            await asyncio.sleep(pause_s)
    return await ask()


async def of_rank(record: Any, pool: Any) -> Any:
    """What SQLite refuses: IF, CONCAT, FOR UPDATE."""
    sql = "SELECT CONCAT(name, '!'), IF(tier > 2, 'high', 'low'), SLEEP(%s) FROM customer WHERE k = %s FOR UPDATE"
    rows = await _again(lambda: pool.fetch_all(sql, (record.service_ms / 1000, record.key)))
    return [list(row[:2]) for row in rows]


async def charges(record: Any, pool: Any) -> Any:
    """Reads and writes own tables, with a key that the record gives."""
    return await _charges(
        "INSERT IGNORE INTO audit (n, order_id) VALUES (%s, %s)", (record.id,) * 2, record, pool
    )


async def charges_again(record: Any, pool: Any) -> Any:
    """Writes again after a write that may have happened."""
    return await _charges("INSERT INTO audit (order_id) VALUES (%s)", (record.id,), record, pool)


async def _charges(write: str, args: tuple[object, ...], record: Any, pool: Any) -> Any:
    async def ask() -> Any:
        async with pool.connection() as connection, connection.cursor() as cursor:
            await cursor.execute(write, args)
            await cursor.execute(
                "SELECT CONCAT(name, %s), SLEEP(%s) FROM product WHERE sku = %s",
                (f" x {record.amount}", record.service_ms / 1000, record.key),
            )
            return await cursor.fetchone()

    return await _again(ask)


async def waits(record: Any, pool: Any) -> Any:
    """Waits for ever from the fifth record on."""
    await pool.fetch_all("SELECT 1", ())
    if record.id > 4:
        await asyncio.get_running_loop().create_future()
    return record.id
