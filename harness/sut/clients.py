"""Clients of the lookups, each with a mistake that is often made, in the place of the pool; for runs that name it.

Answers to the pitfalls in articles on Flink's asynchronous I/O. Invariant: each answers as the pool does, and loses
nothing; it is only slower, or takes more of the server than it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from asyncmy.errors import MySQLError

from harness.database.driver import AsyncMySqlDriver, lookup_connection
from harness.database.endpoint import Endpoint, connect
from harness.database.pool import ConnectionLost, ConnectionPool
from harness.database.transactions import code_of

__all__ = ["CLIENTS", "BlockingClient", "ConnectionACall", "OpenConnections"]


class BlockingClient:
    """Asks with a blocking client, on the task's thread. Mutable: its one connection."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._connection = connect(endpoint)
        self._connection.autocommit(True)

    async def fetch_all(self, sql: str, args: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """No `await` in here: nothing else goes on meanwhile."""
        with self._connection.cursor() as cursor:
            cursor.execute(sql, tuple(args))
            return list(cursor.fetchall())

    def close(self) -> None:
        """The one."""
        self._connection.close()


class ConnectionACall:
    """Opens a connection for each call, and closes it."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    async def fetch_all(self, sql: str, args: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """A handshake for each row."""
        connection = await self._opened()
        try:
            async with connection.cursor() as cursor:
                await cursor.execute(sql, args)
                return list(await cursor.fetchall())
        except (MySQLError, OSError) as error:
            raise ConnectionLost(code_of(error), str(error)) from error
        finally:
            self._done_with(connection)

    async def _opened(self) -> Any:
        connection = lookup_connection(self._endpoint)
        try:
            await connection.connect()
        except (MySQLError, OSError) as error:
            raise ConnectionLost(code_of(error), str(error)) from error
        return connection

    def _done_with(self, connection: Any) -> None:
        connection.close()

    def close(self) -> None:
        """Nothing is left."""


class OpenConnections(ConnectionACall):
    """Opens a connection for each call, and forgets to close it. Mutable: they are held, as a leak holds them."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._forgotten: list[Any] = []

    def _done_with(self, connection: Any) -> None:
        self._forgotten.append(connection)

    def close(self) -> None:
        """With the process, as it were."""
        for connection in self._forgotten:
            with suppress(MySQLError, OSError):
                connection.close()


def _one_connection(endpoint: Endpoint) -> ConnectionPool:
    """All calls share it, one after the other."""
    return ConnectionPool(AsyncMySqlDriver(endpoint), size=1)


CLIENTS: Mapping[str, Callable[[Endpoint], Any]] = {
    "blocking": BlockingClient,
    "one-connection": _one_connection,
    "connection-a-call": ConnectionACall,
    "open-connections": OpenConnections,
}
"""By the name that a scenario's `operator.client` has."""
