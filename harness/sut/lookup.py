"""The reference lookup: the rows of its key, with the nonce of its request, again if no answer came.

What a user's `async def lookup(record, pool)` is measured against. Invariant: an answer is accepted only with
the nonce that was asked with it, so rows of another request can never pass for this one's; a read is made again
only after an error whose class allows it (`harness/database/error_classes.py`), all others go up.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness.choices import Choices
from harness.database.backoff import Backoff
from harness.database.connection_lost import MayAskAgain
from harness.workloads.lookups import Lookup

if TYPE_CHECKING:
    from harness.database.pool import ConnectionPool

__all__ = ["ForeignAnswer", "lookup"]

_GIVE_UP_S = 60.0
"""As long as a lookup asks again; longer than a fault lasts and its record may wait for the sink besides."""
_nonces = itertools.count(1)

_QUERY = (
    "SELECT c.name, c.city, c.tier, asked.nonce, asked.slept, REPEAT('.', %s)"
    " FROM (SELECT %s AS nonce, SLEEP(%s) AS slept) AS asked LEFT JOIN customer AS c ON c.k = %s ORDER BY c.n"
)
"""One row at least, so that even a record without a customer is answered with its nonce; it sleeps once."""


class ForeignAnswer(Exception):
    """The database's answer carries another request's nonce; `values` is what it would have been taken for."""

    def __init__(self, message: str, values: Sequence[dict[str, Any]] = ()) -> None:
        super().__init__(message)
        self.values = list(values)


async def lookup(record: Lookup, pool: ConnectionPool) -> list[dict[str, Any]]:
    """The customers of `record.key`; no row, no output."""
    try:
        return await _ask(record, pool)
    except MayAskAgain:
        return await _ask_again(record, pool)


async def _ask_again(record: Lookup, pool: ConnectionPool) -> list[dict[str, Any]]:
    """A read may be repeated; each record waits as its own id has it, so that they do not all come at once."""
    backoff = Backoff(Choices(record.id, "waits of a lookup"))
    now_s = asyncio.get_running_loop().time
    until_s = now_s() + _GIVE_UP_S
    while True:
        await asyncio.sleep(backoff.next_ms() / 1000)
        try:
            return await _ask(record, pool)
        except MayAskAgain:
            if now_s() >= until_s:
                raise


async def _ask(record: Lookup, pool: ConnectionPool) -> list[dict[str, Any]]:
    nonce = next(_nonces)
    rows = await pool.fetch_all(_QUERY, (record.row_bytes, nonce, record.service_ms / 1000, record.key))
    values = [{"name": row[0], "city": row[1], "tier": row[2]} for row in rows if row[0] is not None]
    for row in rows:
        if int(row[3]) != nonce:
            message = f"asked for record {record.id} with nonce {nonce}, answered with nonce {row[3]}"
            raise ForeignAnswer(message, values)
    return values
