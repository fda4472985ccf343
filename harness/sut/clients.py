"""Faulty clients of the lookups, each with a common mistake, used in place of the pool (`operator.client`).

Answers to the pitfalls in articles on Flink's asynchronous I/O. Invariant: each gives the same answers as the pool and
loses nothing; it is only slower or uses more of the server's resources.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from asyncmy.connection import Connection
from asyncmy.errors import MySQLError

from harness.database.driver import AsyncMySqlDriver, lookup_connection
from harness.database.endpoint import Endpoint, connect
from harness.database.pool import ConnectionLost, ConnectionPool
from harness.database.transactions import code_of
from harness.sut.function_under_test import Client


class BlockingClient:
    """Uses a blocking client on the task's thread. Mutable: its one connection."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._connection = connect(endpoint)
        self._connection.autocommit(True)

    async def fetch_all(self, sql: str, args: Sequence[object] = ()) -> list[tuple[object, ...]]:
        """Has no `await`, so it blocks the event loop."""
        with self._connection.cursor() as cursor:
            cursor.execute(sql, tuple(args))
            return list(cursor.fetchall())

    def close(self) -> None:
        self._connection.close()


class ConnectionACall:
    """Opens and closes a connection for each call."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    async def fetch_all(self, sql: str, args: Sequence[object] = ()) -> list[tuple[object, ...]]:
        connection = lookup_connection(self._endpoint)
        try:
            await connection.connect()
        except (MySQLError, OSError) as error:
            raise ConnectionLost(code_of(error), str(error)) from error
        try:
            async with connection.cursor() as cursor:
                await cursor.execute(sql, args)
                return list(await cursor.fetchall())
        except (MySQLError, OSError) as error:
            raise ConnectionLost(code_of(error), str(error)) from error
        finally:
            self._done_with(connection)

    def _done_with(self, connection: Connection) -> None:
        connection.close()

    def close(self) -> None:
        """There is nothing to close."""


class OpenConnections(ConnectionACall):
    """Opens a connection for each call and never closes it. Mutable: holds the leaked connections."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._forgotten: list[Connection] = []

    def _done_with(self, connection: Connection) -> None:
        self._forgotten.append(connection)

    def close(self) -> None:
        """Closes the leaked connections at the end of the attempt."""
        for connection in self._forgotten:
            with suppress(MySQLError, OSError):
                connection.close()


CLIENTS: Mapping[str, Callable[[Endpoint], Client]] = {
    "blocking": BlockingClient,
    "one-connection": lambda endpoint: ConnectionPool(AsyncMySqlDriver(endpoint), size=1),
    "connection-a-call": ConnectionACall,
    "open-connections": OpenConnections,
}
"""The clients by their name in a scenario's `operator.client`."""
