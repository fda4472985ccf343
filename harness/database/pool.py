"""The pool of the lookups: asyncmy connections, each used by one call at a time.

Answers to the pools of asyncmy and aiomysql, which connect while holding their lock, so that one stuck
connect stops everybody (`docs/references.md`, Measured). Invariant: no wait is unbounded, nothing connects
under a lock, and a connection that saw an error or a cancellation is never used again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncmy
from asyncmy.errors import MySQLError

from harness.database.connection_lost import LOST, ConnectionLost
from harness.plan import Endpoint

__all__ = ["ConnectionLost", "ConnectionPool"]


class ConnectionPool:
    """At most `size` connections to `endpoint`, made when needed, the last used given first.

    `on_loss(code)` is told of every connection that was lost or refused: what a fault's evidence rests on.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        size: int,
        connect_s: float = 2.0,
        query_s: float = 10.0,
        on_loss: Callable[[int | str], None] = lambda code: None,
    ) -> None:
        self._endpoint = endpoint
        self._connect_s = connect_s
        self._query_s = query_s
        self._on_loss = on_loss
        self._slots = asyncio.Semaphore(size)
        self._free: list[Any] = []

    async def fetch_one(self, sql: str, args: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        """The first row of `sql`, or None. Raises `ConnectionLost`, or the server's own error."""
        rows = await self.fetch_all(sql, args)
        return rows[0] if rows else None

    async def fetch_all(self, sql: str, args: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of `sql`. Raises `ConnectionLost`, or the server's own error."""
        async with self.connection() as connection, connection.cursor() as cursor:
            await cursor.execute(sql, args)
            return list(await cursor.fetchall())

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        """A connection for one call; the whole block is bounded by the query limit."""
        async with self._slots:
            try:
                async with asyncio.timeout(self._query_s):
                    connection = self._free.pop() if self._free else await self._connect()
                    try:
                        yield connection
                    except BaseException:
                        connection.close()
                        raise
                    self._free.append(connection)
            except (MySQLError, OSError, TimeoutError) as error:
                self._raise_lost(error)

    async def _connect(self) -> Any:
        endpoint = self._endpoint
        async with asyncio.timeout(self._connect_s):
            return await asyncmy.connect(
                host=endpoint.host,
                port=endpoint.port,
                user=endpoint.user,
                password=endpoint.password,
                db=endpoint.database,
                autocommit=True,
                connect_timeout=self._connect_s,
            )

    def _raise_lost(self, error: Exception) -> None:
        code = error.args[0] if isinstance(error, MySQLError) and error.args else type(error).__name__
        if isinstance(error, MySQLError) and code not in LOST:
            raise error
        self._on_loss(code)
        raise ConnectionLost(code, str(error)) from error

    def close(self) -> None:
        """Close every idle connection; those in use are closed by the call that holds them."""
        while self._free:
            self._free.pop().close()
