"""Drivers of level sim: connections with the interfaces of PyMySQL and asyncmy, over a simulated link.

Invariant: a blocking call suspends its actor, and so its whole attempt, until the reply lands; an awaited call
suspends its asyncio task only. Errors carry the numbers that PyMySQL and asyncmy would give.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Self

from harness.database.simulated.hub import Actor
from harness.database.simulated.link import Flight, HubAlarm, SimulatedConnection, SimulatedLink
from harness.database.simulated.replies import LOST_CONNECTION
from harness.levels.sim.subtask_loop import SubtaskLoop
from reference_impl.mailbox.loops import Handle

_CONNECT_MS: Final = 3_000
"""The connect timeout of `harness.database.endpoint.connect`."""
_CLOSED: Final = 0
"""PyMySQL's error number for a closed connection."""
DATABASE: Final = "simulated"


class SimulatedError(Exception):
    """An error of the simulated server, or a lost connection; the first argument is the error number."""


def _raised(flight: Flight) -> SimulatedError:
    return SimulatedError(flight.code, flight.message)


# ---------------------------------------------------------------------------------------------- blocking


class SimulatedDriver:
    """A `harness.database.driver.Driver` for one actor and link; `catch_up` sets the attempt's loop to now."""

    errors: tuple[type[Exception], ...] = (SimulatedError, OSError)
    database = DATABASE

    def __init__(
        self,
        link: SimulatedLink,
        *,
        actor: Callable[[], Actor],
        catch_up: Callable[[], None] = lambda: None,
        is_root: bool = False,
    ) -> None:
        self._is_root = is_root
        self._link = link
        self._actor = actor
        self._catch_up = catch_up
        self._alarm = HubAlarm(link.hub)

    def connect(self, *, statement_s: float) -> _BlockingConnection:
        """Connect and perform the handshake. Raises `SimulatedError`."""
        made = self._link.connect(is_automatic=False, is_root=self._is_root)
        connection = _BlockingConnection(self, made, limit_ms=round(statement_s * 1000))
        try:
            connection.ask("", limit_ms=_CONNECT_MS)
        except BaseException:
            self.hang_up(connection)
            raise
        return connection

    def hang_up(self, connection: _BlockingConnection) -> None:
        """Close the connection; a statement in flight is executed now or never."""
        connection.hang_up()

    def round_trip(self, flight: Flight) -> None:
        """Send the flight and suspend the actor until the flight has landed."""
        actor = self._actor()
        flight.alarm, flight.landed = self._alarm, lambda _: actor.wake()
        if actor.paused:
            self._link.send(flight)
        else:
            self._link.round_trip(flight)
        while actor.killed or actor.paused or not flight.over:
            actor.wait(None)
        self._catch_up()


class _BlockingConnection:
    """A connection like PyMySQL's, with autocommit off. Mutable: closed when it is lost, as PyMySQL's is."""

    def __init__(self, driver: SimulatedDriver, connection: SimulatedConnection, *, limit_ms: int) -> None:
        self._driver = driver
        self._connection = connection
        self._limit_ms = limit_ms
        self._flight: Flight | None = None
        self._is_automatic = False
        self.open = True

    def ask(
        self, sql: str, args: Sequence[Any] = (), *, many: bool = False, limit_ms: int | None = None
    ) -> Any:
        """One round trip; returns the reply. Raises `SimulatedError`."""
        if not self.open:
            raise SimulatedError(_CLOSED, "the connection is closed")
        if not self._connection.alive:  # cut while idle: the client notices at the first use
            self.open = False
            raise SimulatedError(LOST_CONNECTION, "lost connection to the simulated server during query")
        flight = self._flight = Flight(
            self._connection,
            None,  # type: ignore[arg-type]  # set by `round_trip`
            None,  # type: ignore[arg-type]
            sql=sql,
            args=args,
            many=many,
            limit_ms=limit_ms or self._limit_ms,
        )
        self._driver.round_trip(flight)
        if flight.code is not None:
            self.open = self._connection.alive  # the flight may have ended the connection
            raise _raised(flight)
        return flight.reply

    def cursor(self) -> _BlockingCursor:
        return _BlockingCursor(self)

    def commit(self) -> None:
        self.ask("COMMIT")

    def rollback(self) -> None:
        self.ask("ROLLBACK")

    def autocommit(self, value: bool) -> None:  # noqa: FBT001 - PyMySQL's signature
        """One round trip if the setting changes, else none."""
        if value is not self._is_automatic:
            self.ask(f"SET AUTOCOMMIT = {int(value)}")
            self._is_automatic = value

    def close(self) -> None:
        """Close the connection; takes no virtual time."""
        self._driver.hang_up(self)

    def hang_up(self) -> None:
        self.open = False
        link = self._connection.link
        if self._flight is not None and not self._flight.over:
            link.abandon(self._flight)
        link.close(self._connection)


class _BlockingCursor:
    """A cursor like PyMySQL's. Mutable: holds the rows of its last statement."""

    def __init__(self, connection: _BlockingConnection) -> None:
        self.connection = connection
        self._rows: list[tuple[Any, ...]] = []
        self._next = 0

    def execute(self, sql: str, args: Sequence[Any] = ()) -> int:
        """Execute the statement. Raises `SimulatedError`."""
        return self._take(self.connection.ask(sql, args))

    def executemany(self, sql: str, rows: Sequence[Sequence[Any]]) -> int:
        """Send all rows in one statement, as PyMySQL does for an INSERT."""
        return self._take(self.connection.ask(sql, rows, many=True))

    def _take(self, reply: Any) -> int:
        self._rows, self._next = ([] if reply is None else reply.rows or []), 0
        return len(self._rows)

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, or None."""
        if self._next >= len(self._rows):
            return None
        self._next += 1
        return self._rows[self._next - 1]

    def fetchall(self) -> list[tuple[Any, ...]]:
        """The rows not fetched yet."""
        rows, self._next = self._rows[self._next :], len(self._rows)
        return rows

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._rows = []


# ----------------------------------------------------------------------------------------------- awaited


class _LoopAlarm:
    """Runs callbacks on an attempt's event loop, for clients whose tasks await a reply."""

    def __init__(self, loop: SubtaskLoop) -> None:
        self._loop = loop

    def set(self, instant_ms: int, callback: Callable[[], None]) -> Handle:
        """See `Alarm`. Also wakes the loop, which may wait for a later timer."""
        handle = self._loop.call_at_ms(instant_ms, callback)
        self._loop.look_again()
        return handle

    def drop(self, alarm: Handle) -> None:
        alarm.gone = True


class AsyncSimulatedDriver:
    """A `harness.database.driver.AsyncDriver` for one attempt's loop and link."""

    errors: tuple[type[Exception], ...] = (SimulatedError, OSError)

    def __init__(self, link: SimulatedLink, *, loop: SubtaskLoop) -> None:
        self._link = link
        self.loop = loop
        self.alarm = _LoopAlarm(loop)

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
        self._unsent: deque[tuple[str, Sequence[Any]]] = deque()
        """Statements that the server reads when it has answered the one before."""
        self._unread: deque[Flight] = deque()

    @property
    def alive(self) -> bool:
        """Whether the client still takes the connection for open."""
        return self._connection is not None and self._connection.alive

    async def connect(self) -> None:
        self._connection = self._link.connect(is_automatic=True)
        await self.ask("")

    async def ask(self, sql: str, args: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """One round trip; returns the reply. Raises `SimulatedError`."""
        connection = self._connection
        if connection is None or not connection.alive:
            raise SimulatedError(LOST_CONNECTION, "lost connection to the simulated server during query")
        reads = self._reader = self._driver.loop.create_future()
        if self._flight is None or self._flight.over:
            self._send(connection, sql, args)
        else:
            self._unsent.append((sql, args))
        if self._unread:
            self._tell(self._unread.popleft())
        try:
            flight = await reads
        except asyncio.CancelledError:
            self.hang_up()
            raise
        if flight.code is not None:
            raise _raised(flight)
        return [] if flight.reply is None else flight.reply.rows or []

    def _send(self, connection: SimulatedConnection, sql: str, args: Sequence[Any]) -> None:
        flight = self._flight = Flight(connection, self._driver.alarm, self._landed, sql=sql, args=args)
        self._link.send(flight)

    def _landed(self, flight: Flight) -> None:
        self._tell(flight)
        if self._unsent and flight.connection.alive:
            self._send(flight.connection, *self._unsent.popleft())

    def _tell(self, flight: Flight) -> None:
        reads, self._reader = self._reader, None
        if reads is None:
            self._unread.append(flight)
        elif not reads.done():
            reads.set_result(flight)

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


class _AsyncCursor:
    """A cursor like asyncmy's: one statement at a time. Mutable: holds its rows."""

    __slots__ = ("_connection", "_next", "_rows")

    def __init__(self, connection: _AsyncConnection) -> None:
        self._connection = connection
        self._rows: list[tuple[Any, ...]] = []
        self._next = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._rows = []

    async def execute(self, sql: str, args: Sequence[Any] = ()) -> int:
        """Execute the statement; returns its number of rows. Raises `SimulatedError`."""
        self._rows, self._next = await self._connection.ask(sql, args), 0
        return len(self._rows)

    async def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, or None."""
        if self._next >= len(self._rows):
            return None
        self._next += 1
        return self._rows[self._next - 1]

    async def fetchall(self) -> list[tuple[Any, ...]]:
        """The rows not fetched yet."""
        rows, self._next = self._rows[self._next :], len(self._rows)
        return rows
