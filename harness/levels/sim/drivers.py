"""Drivers of level sim: connections with the interfaces of PyMySQL and asyncmy, over a simulated link.

Invariant: a blocking call suspends its actor, and so its whole attempt, until the reply lands; an awaited call
suspends its asyncio task only. Errors carry the numbers that PyMySQL and asyncmy would give.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol, Self

from msgspec import Struct

from harness.database.endpoint import Endpoint
from harness.database.simulated.hub import Actor
from harness.database.simulated.link import Flight, SimulatedConnection, SimulatedLink
from harness.database.simulated.replies import LOST_CONNECTION
from harness.levels.sim.subtask_loop import SubtaskLoop

_CONNECT_MS: Final = 3_000
"""The connect timeout of `harness.database.endpoint.connect`."""
_CLOSED: Final = 0
"""PyMySQL's error number for a closed connection."""
DATABASE: Final = "simulated"
AT: Final = Endpoint(host="127.0.0.1", port=3306, user="floodmark", password="any", database="floodmark")  # noqa: S106
"""What `open` of a lookup with its own client gets: the same in each run, wherever the real server is."""


class SimulatedError(Exception):
    """An error of the simulated server, or a lost connection; the first argument is the error number."""


# ---------------------------------------------------------------------------------------------- blocking


class BlockingClient(Protocol):
    """Blocking code of level sim: an attempt, or an actor of the harness."""

    @property
    def actor(self) -> Actor:
        """The actor that its calls suspend."""

    def catch_up(self) -> None:
        """Called after each call: sets an attempt's loop to the present time."""


class HarnessClient:
    """An actor of the harness, which has no loop. Mutable: set `actor` before the first call."""

    actor: Actor

    def catch_up(self) -> None: ...


class SimulatedDriver:
    """A `harness.database.driver.Driver` for the blocking code of one client."""

    errors: tuple[type[Exception], ...] = (SimulatedError, OSError)
    database = DATABASE

    def __init__(self, link: SimulatedLink, client: BlockingClient, *, is_root: bool = False) -> None:
        self._is_root = is_root
        self._link = link
        self._client = client

    def connect(self, *, statement_s: float) -> _BlockingConnection:
        """Connect and perform the handshake. Raises `SimulatedError`."""
        made = self._link.connect(is_automatic=False, is_root=self._is_root)
        connection = _BlockingConnection(self._client, made, limit_ms=round(statement_s * 1000))
        try:
            connection.execute("", limit_ms=_CONNECT_MS)
        except BaseException:
            self.hang_up(connection)
            raise
        return connection

    def hang_up(self, connection: _BlockingConnection) -> None:
        """Close the connection; a statement in flight is executed now or never."""
        connection.close()


class _BlockingConnection:
    """A connection like PyMySQL's, with autocommit off, and its own cursor, since one is in use at a time.

    Mutable: holds the rows of its last statement; closed when it is lost, as PyMySQL's is.
    """

    def __init__(self, client: BlockingClient, connection: SimulatedConnection, *, limit_ms: int) -> None:
        self._client = client
        self._connection = connection
        self._limit_ms = limit_ms
        self._flight: Flight | None = None
        self._is_automatic = False
        self._rows: list[tuple[object, ...]] = []
        self._next = 0
        self.open = True

    def execute(
        self, sql: str, args: Sequence[object] = (), *, many: bool = False, limit_ms: int | None = None
    ) -> None:
        """Suspends the actor until the reply has landed. Raises `SimulatedError`."""
        if not self.open:
            raise SimulatedError(_CLOSED, "the connection is closed")
        connection, client = self._connection, self._client
        if not connection.alive:  # cut while idle: the client notices at the first use
            self.open = False
            raise SimulatedError(LOST_CONNECTION, "lost connection to the simulated server during query")
        link, actor = connection.link, client.actor
        flight = self._flight = Flight(
            connection,
            link.hub,
            lambda _: actor.wake(),
            sql=sql,
            args=args,
            many=many,
            limit_ms=limit_ms or self._limit_ms,
        )
        link.send(flight, blocks=not actor.paused)
        while actor.killed or actor.paused or not flight.over:
            actor.wait(None)
        client.catch_up()
        if flight.code is not None:
            self.open = connection.alive  # the flight may have ended the connection
            raise SimulatedError(flight.code, flight.message)
        self._rows, self._next = ([] if flight.reply is None else flight.reply.rows or []), 0

    def executemany(self, sql: str, rows: Sequence[Sequence[object]]) -> None:
        """Send all rows in one statement, as PyMySQL does for an INSERT."""
        self.execute(sql, rows, many=True)

    def fetchone(self) -> tuple[object, ...] | None:
        """The next row, or None."""
        for row in self._rows[self._next :]:
            self._next += 1
            return row
        return None

    def fetchall(self) -> list[tuple[object, ...]]:
        """The rows not fetched yet."""
        rows, self._next = self._rows[self._next :], len(self._rows)
        return rows

    def cursor(self) -> Self:
        return self

    @property
    def connection(self) -> Self:
        """As of a cursor."""
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def commit(self) -> None:
        self.execute("COMMIT")

    def rollback(self) -> None:
        self.execute("ROLLBACK")

    def autocommit(self, value: bool) -> None:  # noqa: FBT001 - PyMySQL's signature
        """One round trip if the setting changes, else none."""
        if value is not self._is_automatic:
            self.execute(f"SET AUTOCOMMIT = {int(value)}")
            self._is_automatic = value

    def close(self) -> None:
        """Close the connection; takes no virtual time."""
        self.open = False
        link = self._connection.link
        if self._flight is not None and not self._flight.over:
            link.abandon(self._flight)
        link.close(self._connection)


# ----------------------------------------------------------------------------------------------- awaited


class AsyncSimulatedDriver:
    """A `harness.database.driver.AsyncDriver` for one attempt's loop and link."""

    errors: tuple[type[Exception], ...] = (SimulatedError, OSError)

    def __init__(self, link: SimulatedLink, *, loop: SubtaskLoop) -> None:
        self._link = link
        self.loop = loop

    def connection(self) -> _AsyncConnection:
        """A connection that is not open yet."""
        return _AsyncConnection(self, self._link)

    async def open(self, connection: _AsyncConnection, *, session: str) -> None:
        """Connect, then send the session settings. Raises `SimulatedError`."""
        await connection.connect()
        await connection.ask(session)

    def is_broken(self, connection: _AsyncConnection) -> bool:
        """Whether the connection was cut while idle."""
        return not connection.alive

    def hang_up(self, connection: _AsyncConnection) -> None:
        """Close the connection without waiting for the server."""
        connection.hang_up()


class _AsyncConnection:
    """A connection like asyncmy's, with autocommit on. Mutable.

    Its replies are one stream: they come in the order of the statements, and whoever asked last reads the next one. So
    a connection that is given back with a reply on the way answers the next call with it. A call that is cancelled
    while it reads closes the connection.
    """

    def __init__(self, driver: AsyncSimulatedDriver, link: SimulatedLink) -> None:
        self._driver = driver
        self._link = link
        self._connection: SimulatedConnection | None = None
        self._flight: Flight | None = None
        self._reader: asyncio.Future[Flight] | None = None
        self._unsent: deque[tuple[str, Sequence[object]]] = deque()
        """Statements that the server reads when it has answered the one before."""
        self._unread: deque[Flight] = deque()

    @property
    def alive(self) -> bool:
        """Whether the client still takes the connection for open."""
        return self._connection is not None and self._connection.alive

    async def connect(self) -> None:
        self._connection = self._link.connect(is_automatic=True)
        await self.ask("")

    async def ask(self, sql: str, args: Sequence[object] = ()) -> list[tuple[object, ...]]:
        """One round trip; returns the reply. Raises `SimulatedError`."""
        connection = self._connection
        if connection is None or not connection.alive:
            raise SimulatedError(LOST_CONNECTION, "lost connection to the simulated server during query")
        reads = self._reader = asyncio.Future(loop=self._driver.loop)
        if self._flight is None or self._flight.over:
            self._send(connection, sql, args)
        else:
            self._unsent.append((sql, args))
        if self._unread:
            reads.set_result(self._unread.popleft())
            self._reader = None
        try:
            flight = await reads
        except asyncio.CancelledError:
            self.hang_up()
            raise
        if flight.code is not None:
            raise SimulatedError(flight.code, flight.message)
        return [] if flight.reply is None else flight.reply.rows or []

    def _send(self, connection: SimulatedConnection, sql: str, args: Sequence[object]) -> None:
        flight = self._flight = Flight(connection, self._driver.loop, self._landed, sql=sql, args=args)
        self._link.send(flight)

    def _landed(self, flight: Flight) -> None:
        reads, self._reader = self._reader, None
        if reads is None:
            self._unread.append(flight)
        elif not reads.done():
            reads.set_result(flight)
        if self._unsent and flight.connection.alive:
            self._send(flight.connection, *self._unsent.popleft())

    def cursor(self) -> _AsyncCursor:
        """A cursor for `async with`."""
        return _AsyncCursor(self)

    async def query(self, sql: str) -> None:
        """Execute the statement and ignore its rows."""
        await self.ask(sql)

    def close(self) -> None:
        self._driver.hang_up(self)

    def hang_up(self) -> None:
        self._unsent.clear()
        if self._flight is not None and not self._flight.over:
            self._link.abandon(self._flight)
        if self._connection is not None:
            self._link.close(self._connection)


class _AsyncCursor(Struct, eq=False):
    """A cursor like asyncmy's: one statement at a time. Mutable: holds its rows."""

    _connection: _AsyncConnection
    _rows: list[tuple[object, ...]] = []
    _next: int = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._rows = []

    async def execute(self, sql: str, args: Sequence[object] = ()) -> int:
        """Execute the statement; returns its number of rows. Raises `SimulatedError`."""
        self._rows, self._next = await self._connection.ask(sql, args), 0
        return len(self._rows)

    async def fetchone(self) -> tuple[object, ...] | None:
        """The next row, or None."""
        for row in self._rows[self._next :]:
            self._next += 1
            return row
        return None

    async def fetchall(self) -> list[tuple[object, ...]]:
        """The rows not fetched yet."""
        rows, self._next = self._rows[self._next :], len(self._rows)
        return rows
