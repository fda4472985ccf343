"""The reference lookup: the rows of its key, with the nonce of its request, again if no answer came.

What a user's `async def lookup(record, pool)` is measured against. Invariant: an answer is accepted only with
the nonce that was asked with it, so rows of another request can never pass for this one's; a read is made again
only after an error whose class allows it (`harness/database/transactions.py`), all others go up.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from harness.choices import Choices
from harness.database.endpoint import QUERY
from harness.database.pool import MayAskAgain
from harness.database.transactions import Backoff
from harness.workloads.lookups import Lookup

if TYPE_CHECKING:
    from harness.database.pool import ConnectionPool

__all__ = ["ForeignAnswer", "Nonces", "ReferenceLookup", "own_nonces"]

_GIVE_UP_S = 60.0
"""As long as a lookup asks again; longer than a fault lasts and its record may wait for the sink besides."""


class ForeignAnswer(Exception):
    """The database's answer carries another request's nonce; `values` is what it holds."""

    def __init__(self, message: str, values: Sequence[dict[str, Any]] = ()) -> None:
        super().__init__(message)
        self.values = list(values)


class Nonces(Protocol):
    """Numbers the calls of a run: an attempt's journal."""

    def nonce_of(self, id: int) -> int:
        """Of the latest call of record `id`."""

    def answered(self, asked: int, echoed: int) -> None:
        """The answer to the call with nonce `asked` came with nonce `echoed`."""


def own_nonces() -> Nonces:
    """Of calls that no journal numbers."""
    return _OwnNonces()


class _OwnNonces:
    """Mutable: counts."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def nonce_of(self, id: int) -> int:
        del id
        return next(self._numbers)

    def answered(self, asked: int, echoed: int) -> None:
        """Nobody writes it down."""


class ReferenceLookup:
    """`async def lookup(record, pool)`, as an object that knows the nonces of its calls."""

    def __init__(self, nonces: Nonces) -> None:
        self._nonces = nonces

    async def __call__(self, record: Lookup, pool: ConnectionPool) -> list[dict[str, Any]]:
        """The customers of `record.key`; no row, no output."""
        nonce = self._nonces.nonce_of(record.id)
        try:
            return await self._ask(record, pool, nonce)
        except MayAskAgain:
            return await self._ask_again(record, pool, nonce)

    async def _ask_again(self, record: Lookup, pool: ConnectionPool, nonce: int) -> list[dict[str, Any]]:
        """A read may be repeated; each record waits as its own id has it, so that they do not all come at once."""
        backoff = Backoff(Choices(record.id, "waits of a lookup"))
        now_s = asyncio.get_running_loop().time
        until_s = now_s() + _GIVE_UP_S
        while True:
            await asyncio.sleep(backoff.next_ms() / 1000)
            try:
                return await self._ask(record, pool, nonce)
            except MayAskAgain:
                if now_s() >= until_s:
                    raise

    async def _ask(self, record: Lookup, pool: ConnectionPool, nonce: int) -> list[dict[str, Any]]:
        rows = await pool.fetch_all(QUERY, (record.row_bytes, nonce, record.service_ms / 1000, record.key))
        echoed = nonce
        for row in rows:
            if int(row[3]) != nonce:
                echoed = int(row[3])
        self._nonces.answered(nonce, echoed)
        values = [{"name": row[0], "city": row[1], "tier": row[2]} for row in rows if row[0] is not None]
        if echoed != nonce:
            message = f"asked for record {record.id} with nonce {nonce}, answered with nonce {echoed}"
            raise ForeignAnswer(message, values)
        return values
