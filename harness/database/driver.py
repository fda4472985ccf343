"""How sinks, coordinator and pool reach a database: two small protocols, and MySQL behind each.

Answers to JDBC's `DataSource`. Whoever speaks to the database is handed a driver, so the same code runs over PyMySQL
and asyncmy at levels live and spark, and over simulated connections at level sim. Invariant: a driver's connection that
was hung up never waits for the server, and no wait of a driver is unbounded. PyMySQL and asyncmy are imported when a
connection is first made: level sim needs neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, Self

from harness.database.endpoint import Endpoint, connect

__all__ = [
    "AsyncDriver",
    "AsyncMySqlDriver",
    "BlockingConnection",
    "Cursor",
    "Driver",
    "MySqlDriver",
    "lookup_connection",
]


class Cursor(Protocol):
    """As DB-API 2.0 has it; a context manager."""

    connection: Any

    def execute(self, sql: str, args: Sequence[Any] = ()) -> Any:
        """Run one statement; `%s` holds a place."""

    def executemany(self, sql: str, rows: Sequence[Sequence[Any]]) -> Any:
        """Run one INSERT for many rows."""

    def fetchone(self) -> Any:
        """The next row, or None."""

    def fetchall(self) -> Any:
        """The rows that are left."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...


class BlockingConnection(Protocol):
    """One session, outside autocommit."""

    @property
    def open(self) -> bool:
        """Whether it has not been closed."""

    def cursor(self) -> Cursor:
        """A cursor; one at a time."""

    def commit(self) -> None:
        """COMMIT."""

    def rollback(self) -> None:
        """ROLLBACK."""

    def autocommit(self, value: bool) -> None:  # noqa: FBT001 - PyMySQL's signature
        """Whether each statement is a transaction of its own."""

    def close(self) -> None:
        """Say goodbye to the server."""


class Driver(Protocol):
    """Connects code that blocks."""

    @property
    def database(self) -> str:
        """The schema that its connections use."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What a statement or a connect may raise; `error_classes.code_of` reads their numbers."""

    def connect(self, *, statement_s: float) -> Any:
        """A `BlockingConnection`, each of whose answers is waited for at most so long."""

    def hang_up(self, connection: Any) -> None:
        """Give the socket up now: a polite QUIT could wait on a dead link."""


class AsyncDriver(Protocol):
    """Connects coroutines. Its connections are the client library's own: a lookup is handed one."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """As `Driver.errors`."""

    def connection(self) -> Any:
        """Not connected yet."""

    async def open(self, connection: Any, *, session: str) -> None:
        """Connect, shake hands, and run the statement `session`; the caller bounds it."""

    def is_broken(self, connection: Any) -> bool:
        """Whether an idle connection is known to have died."""

    def hang_up(self, connection: Any) -> None:
        """As `Driver.hang_up`."""


class MySqlDriver:
    """PyMySQL's connections to `endpoint`."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.database = endpoint.database

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """PyMySQL's, and the socket's."""
        from pymysql import MySQLError  # noqa: PLC0415 - see above

        return (MySQLError, OSError)

    def connect(self, *, statement_s: float) -> Any:
        """See `Driver`."""
        return connect(self._endpoint, statement_s=statement_s)

    def hang_up(self, connection: Any) -> None:
        """See `Driver`."""
        if connection.open:
            connection._force_close()  # noqa: SLF001 - the polite close() waits for the server


_FOREVER_S = 31_536_000


class AsyncMySqlDriver:
    """asyncmy's connections to `endpoint`."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """asyncmy's, and the socket's."""
        from asyncmy.errors import MySQLError  # noqa: PLC0415

        return (MySQLError, OSError)

    def connection(self) -> Any:
        """See `AsyncDriver`."""
        connection = lookup_connection(self._endpoint, connect_timeout_s=_FOREVER_S)
        # asyncmy's own limit covers only the socket, and may drop an open socket or a cancellation that comes at the
        # same moment (asyncio.wait_for of 3.11); the pool's limit covers the handshake too.
        connection._connect_timeout = None  # noqa: SLF001
        return connection

    async def open(self, connection: Any, *, session: str) -> None:
        """See `AsyncDriver`."""
        await connection.connect()
        await connection.query(session)

    def is_broken(self, connection: Any) -> bool:
        """See `AsyncDriver`; asyncmy's own pool asks the same, by the same name."""
        return bool(connection._stream_broken)  # noqa: SLF001

    def hang_up(self, connection: Any) -> None:
        """See `AsyncDriver`."""
        transport = connection._transport  # noqa: SLF001 - close() would wait for what a dead link never takes
        connection.close()
        if transport is not None:
            transport.abort()


def lookup_connection(endpoint: Endpoint, *, connect_timeout_s: int = 10) -> Any:
    """Not connected yet: `await connection.connect()` is left to the caller, and so is what it costs."""
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
