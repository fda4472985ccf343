"""The reference lookup: one row by its key, with the nonce of its request, again if the connection is lost.

What a user's `async def lookup(record, pool)` is measured against. Invariant: an answer is accepted only with
the nonce that was asked with it, so rows of another request can never pass for this one's.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

from harness.database.connection_lost import ConnectionLost
from harness.workloads.lookups import Lookup

if TYPE_CHECKING:
    from harness.database.pool import ConnectionPool

__all__ = ["ForeignAnswer", "lookup"]

_TRIES_MAX = 200
_BETWEEN_TRIES_S = 0.025
_nonces = itertools.count(1)

_QUERY = "SELECT name, city, tier, %s, SLEEP(%s) FROM customer WHERE k = %s"


class ForeignAnswer(Exception):
    """The database's answer carries another request's nonce."""


async def lookup(record: Lookup, pool: ConnectionPool) -> list[dict[str, Any]]:
    """The customer of `record.key`; no row, no output. A read may be repeated, so a lost connection is."""
    for _ in range(_TRIES_MAX - 1):
        try:
            return await _ask(record, pool)
        except ConnectionLost:
            await asyncio.sleep(_BETWEEN_TRIES_S)
    return await _ask(record, pool)


async def _ask(record: Lookup, pool: ConnectionPool) -> list[dict[str, Any]]:
    nonce = next(_nonces)
    row = await pool.fetch_one(_QUERY, (nonce, record.service_ms / 1000, record.key))
    if row is None:
        return []
    name, city, tier, echoed, _ = row
    if int(echoed) != nonce:
        message = f"asked for record {record.id} with nonce {nonce}, answered with nonce {echoed}"
        raise ForeignAnswer(message)
    return [{"name": name, "city": city, "tier": tier}]
