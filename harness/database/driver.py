"""How sinks, coordinator and pool reach a database: two small protocols, with PyMySQL and asyncmy behind them.

Answers to JDBC's `DataSource`. The same code runs over PyMySQL and asyncmy at levels live and spark, and over
simulated connections at level sim. Invariant: a connection that was hung up never waits for the server, and every wait
of a driver is bounded. PyMySQL and asyncmy are imported at the first connection, so level sim needs neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, Self

from harness.database.endpoint import Endpoint, connect


class Cursor(Protocol):
    """A cursor of DB-API 2.0, also a context manager."""

    @property
    def connection(self) -> BlockingConnection: ...

    def execute(self, sql: str, args: Sequence[object] = ()) -> object:
        """Run one statement; `%s` marks a parameter."""

    def executemany(self, sql: str, rows: Sequence[Sequence[object]]) -> object:
        """Run one INSERT with many rows."""

    def fetchone(self) -> Any:
        """The next row, or None."""

    def fetchall(self) -> Any:
        """The remaining rows."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...


class BlockingConnection(Protocol):
    """One session with autocommit off."""

    @property
    def open(self) -> bool: ...

    def cursor(self) -> Cursor:
        """A cursor; only one at a time."""

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def autocommit(self, value: bool) -> None:  # noqa: FBT001 - PyMySQL's signature
        """Turn autocommit on or off."""

    def close(self) -> None:
        """End the session in order (COM_QUIT)."""


class Driver(Protocol):
    """Makes connections for blocking code."""

    @property
    def database(self) -> str:
        """The database that its connections use."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """The exceptions of statements and connects; `transactions.code_of` reads their code."""

    def connect(self, *, statement_s: float) -> BlockingConnection:
        """A new `BlockingConnection`; each wait for an answer is limited to `statement_s`."""

    def hang_up(self, connection: Any) -> None:
        """Close the socket now, without COM_QUIT, which could wait on a dead link."""


class AsyncDriver(Protocol):
    """Makes connections for coroutines. They are the client library's own objects, which a lookup gets."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """As `Driver.errors`."""

    def connection(self) -> object:
        """A connection object that is not connected yet."""

    async def open(self, connection: Any, *, session: str) -> None:
        """Connect, log in and run the statement `session`; the caller limits the time."""

    def is_broken(self, connection: Any) -> bool:
        """Whether an idle connection is known to be dead."""

    def hang_up(self, connection: Any) -> None:
        """As `Driver.hang_up`."""


class MySqlDriver:
    """A `Driver` over PyMySQL."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.database = endpoint.database

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """PyMySQL's errors and the socket's."""
        from pymysql import MySQLError  # noqa: PLC0415 - imported late, see the module

        return (MySQLError, OSError)

    def connect(self, *, statement_s: float) -> BlockingConnection:
        return connect(self._endpoint, statement_s=statement_s)

    def hang_up(self, connection: Any) -> None:
        if connection.open:
            connection._force_close()  # noqa: SLF001 - the polite close() waits for the server


_FOREVER_S = 31_536_000


class AsyncMySqlDriver:
    """An `AsyncDriver` over asyncmy."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """Asyncmy's errors and the socket's."""
        from asyncmy.errors import MySQLError  # noqa: PLC0415

        return (MySQLError, OSError)

    def connection(self) -> object:
        connection = lookup_connection(self._endpoint, connect_timeout_s=_FOREVER_S)
        # asyncmy's own limit covers only the TCP connect, and may lose an open socket or a cancellation that comes
        # at the same moment (asyncio.wait_for of 3.11); the pool's limit covers the handshake too.
        connection._connect_timeout = None  # noqa: SLF001
        return connection

    async def open(self, connection: Any, *, session: str) -> None:
        await connection.connect()
        await connection.query(session)

    def is_broken(self, connection: Any) -> bool:
        """See `AsyncDriver`; asyncmy's own pool reads the same private field."""
        return bool(connection._stream_broken)  # noqa: SLF001

    def hang_up(self, connection: Any) -> None:
        transport = connection._transport  # noqa: SLF001 - close() would wait for what a dead link never takes
        connection.close()
        if transport is not None:
            transport.abort()


def lookup_connection(endpoint: Endpoint, *, connect_timeout_s: int = 10) -> Any:
    """A connection object that is not connected: the caller awaits its `connect()`, and pays for it."""
    from asyncmy.connection import Connection  # noqa: PLC0415

    return Connection(
        host=endpoint.host,
        port=endpoint.port,
        user=endpoint.user,
        password=endpoint.password,
        db=endpoint.database,
        autocommit=True,
        connect_timeout=connect_timeout_s,
    )
