"""The reference lookup: reads the rows of a key, checks the nonce of the request, and retries transient errors.

Invariants: an answer is accepted only with the nonce of its own request, so the rows of another request cannot be
mistaken for it; only errors whose class allows it (`harness/database/transactions.py`) are retried, others are raised.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from harness.database.endpoint import QUERY, QUERY_OF_PARTS
from harness.database.pool import MayAskAgain
from harness.database.transactions import Backoff
from harness.scenario.workloads.lookups import Lookup
from harness.system.choices import Choices
from harness.system.json_types import Json

if TYPE_CHECKING:
    from harness.database.pool import ConnectionPool

_GIVE_UP_S = 60.0
"""How long a lookup retries; longer than any fault lasts plus the time that its record may wait for the sink."""


class ForeignAnswer(Exception):
    """The answer carries the nonce of another request; `values` is its content."""

    def __init__(self, message: str, values: Sequence[Json] = ()) -> None:
        super().__init__(message)
        self.values = list(values)


class Nonces(Protocol):
    """Gives the calls of a run their nonces: an attempt's journal."""

    def nonce_of(self, id: int) -> int:
        """The nonce of the latest call of record `id`."""

    def answered(self, asked: int, echoed: int, version: int | None) -> None:
        """Records that the answer to the call with nonce `asked` came with nonce `echoed`.

        `version`: that of the rows of the answer; None: it is not told, or the answer has none.
        """


class OwnNonces:
    """Nonces for calls without a journal: their numbers. Mutable."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def nonce_of(self, id: int) -> int:
        del id
        return next(self._numbers)

    def answered(self, asked: int, echoed: int, version: int | None) -> None:
        """Does nothing: the answer is not recorded."""


class ReferenceLookup:
    """A callable like `async def lookup(record, pool)` that adds a nonce to each call.

    `tells_versions`: whether it records the version of the rows of each answer.
    """

    def __init__(self, nonces: Nonces, *, tells_versions: bool = False) -> None:
        self._nonces = nonces
        self._tells_versions = tells_versions

    async def __call__(self, record: Lookup, pool: ConnectionPool) -> list[Json]:
        """The rows of `record.key` as results."""
        nonce = self._nonces.nonce_of(record.id)
        try:
            return await self._ask(record, pool, nonce)
        except MayAskAgain:
            return await self._ask_again(record, pool, nonce)

    async def _ask_again(self, record: Lookup, pool: ConnectionPool, nonce: int) -> list[Json]:
        """Retries with a backoff drawn from the record's id, so that records do not retry all at once."""
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

    async def _ask(self, record: Lookup, pool: ConnectionPool, nonce: int) -> list[Json]:
        key = record.key
        asked = record.row_bytes, nonce, record.service_ms / 1000
        if isinstance(key, tuple):
            rows = await pool.fetch_all(QUERY_OF_PARTS, (*asked, *key))
        else:
            rows = await pool.fetch_all(QUERY, (*asked, key))
        echoed = nonce
        for row in rows:
            if int(row[3]) != nonce:
                echoed = int(row[3])
        # One statement reads one version, so the first row tells that of all.
        self._nonces.answered(nonce, echoed, rows[0][6] if self._tells_versions and rows else None)
        values = [{"name": row[0], "city": row[1], "tier": row[2]} for row in rows if row[0] is not None]
        if echoed != nonce:
            message = f"asked for record {record.id} with nonce {nonce}, answered with nonce {echoed}"
            raise ForeignAnswer(message, values)
        return values
