"""Drivers of level sim: connections of the forms of PyMySQL and asyncmy, over a simulated link.

Invariant: a blocking call stops its actor, and with it everything of its attempt, until the answer lands; an awaited
one stops its task only. Errors carry the numbers that PyMySQL and asyncmy would give.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, Self

from harness.levels.sim.subtask_loop import SubtaskLoop
from harness.simulation.hub import Actor
from harness.simulation.link import Flight, HubAlarm, SimulatedConnection, SimulatedLink
from harness.simulation.replies import LOST_CONNECTION
from reference_impl.mailbox.loops import Handle

__all__ = ["AsyncSimulatedDriver", "SimulatedDriver", "SimulatedError"]

_CONNECT_MS: Final = 3_000
"""As `harness.database.endpoint.connect` has it."""
_CLOSED: Final = 0
"""PyMySQL's number of an operation on a closed connection."""
DATABASE: Final = "simulated"


class SimulatedError(Exception):
    """An error of the simulated server, or a lost connection; its first argument is the number."""


def _raised(flight: Flight) -> SimulatedError:
    return SimulatedError(flight.code, flight.message)


# ---------------------------------------------------------------------------------------------- blocking


class SimulatedDriver:
    """Of one actor, over one link; a `harness.database.driver.Driver`. `catch_up` sets the attempt's loop to now."""

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
        """Connect, shake hands. Raises `SimulatedError`."""
        made = self._link.connect(is_automatic=False, is_root=self._is_root)
        connection = _BlockingConnection(self, made, limit_ms=round(statement_s * 1000))
        try:
            connection.ask("", limit_ms=_CONNECT_MS)
        except BaseException:
            self.hang_up(connection)
            raise
        return connection

    def hang_up(self, connection: _BlockingConnection) -> None:
        """Give it up; what is under way takes effect now or never."""
        connection.hang_up()

    def round_trip(self, flight: Flight) -> None:
        """Send it and stop the actor until it has landed."""
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
    """As PyMySQL's, outside autocommit. Mutable: is closed by a loss, as there."""

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
        """One round trip; the rows. Raises `SimulatedError`."""
        if not self.open:
            raise SimulatedError(_CLOSED, "the connection is closed")
        if not self._connection.alive:  # it was cut while it was idle: the first use shows it
            self.open = False
            raise SimulatedError(LOST_CONNECTION, "lost connection to the simulated server during query")
        flight = self._flight = Flight(
            self._connection,
            None,  # type: ignore[arg-type]  # the driver gives it
            None,  # type: ignore[arg-type]
            sql=sql,
            args=args,
            many=many,
            limit_ms=limit_ms or self._limit_ms,
        )
        self._driver.round_trip(flight)
        if flight.code is not None:
            self.open = self._connection.alive  # which its flight may have ended
            raise _raised(flight)
        return flight.reply

    def cursor(self) -> _BlockingCursor:
        """A cursor."""
        return _BlockingCursor(self)

    def commit(self) -> None:
        """COMMIT."""
        self.ask("COMMIT")

    def rollback(self) -> None:
        """ROLLBACK."""
        self.ask("ROLLBACK")

    def autocommit(self, value: bool) -> None:  # noqa: FBT001 - PyMySQL's signature
        """One round trip, if that changes anything."""
        if value is not self._is_automatic:
            self.ask(f"SET AUTOCOMMIT = {int(value)}")
            self._is_automatic = value

    def close(self) -> None:
        """A polite end; on a simulated link it takes no time."""
        self._driver.hang_up(self)

    def hang_up(self) -> None:
        self.open = False
        link = self._connection.link
        if self._flight is not None and not self._flight.over:
            link.abandon(self._flight)
        link.close(self._connection)


class _BlockingCursor:
    """As PyMySQL's. Mutable: holds the rows of its last statement."""

    def __init__(self, connection: _BlockingConnection) -> None:
        self.connection = connection
        self._rows: list[tuple[Any, ...]] = []
        self._next = 0

    def execute(self, sql: str, args: Sequence[Any] = ()) -> int:
        """Run it. Raises `SimulatedError`."""
        return self._take(self.connection.ask(sql, args))

    def executemany(self, sql: str, rows: Sequence[Sequence[Any]]) -> int:
        """One statement for all rows, as PyMySQL makes one of an INSERT."""
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
        """The rows that are left."""
        rows, self._next = self._rows[self._next :], len(self._rows)
        return rows

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._rows = []


# ----------------------------------------------------------------------------------------------- awaited


class _LoopAlarm:
    """Calls back from an attempt's loop: for a client that goes on meanwhile."""

    def __init__(self, loop: SubtaskLoop) -> None:
        self._loop = loop

    def set(self, instant_ms: int, callback: Callable[[], None]) -> Handle:
        """See `Alarm`. The hub may call it while the attempt waits for something later."""
        handle = self._loop.call_at_ms(instant_ms, callback)
        self._loop.look_again()
        return handle

    def drop(self, alarm: Handle) -> None:
        alarm.gone = True


class AsyncSimulatedDriver:
    """Of one attempt's loop, over one link; a `harness.database.driver.AsyncDriver`."""

    errors: tuple[type[Exception], ...] = (SimulatedError, OSError)

    def __init__(self, link: SimulatedLink, *, loop: SubtaskLoop) -> None:
        self._link = link
        self.loop = loop
        self.alarm = _LoopAlarm(loop)

    def connection(self) -> _AsyncConnection:
        """Not connected yet."""
        return _AsyncConnection(self, self._link)

    async def open(self, connection: _AsyncConnection, *, session: str) -> None:
        """Connect and shake hands; the session's settings go along. Raises `SimulatedError`."""
        await connection.connect()
        await connection.ask(session)

    def is_broken(self, connection: _AsyncConnection) -> bool:
        """Whether it was cut while it was idle."""
        return not connection.alive

    def hang_up(self, connection: _AsyncConnection) -> None:
        """Give it up, whatever the server does."""
        connection.hang_up()


class _AsyncConnection:
    """As asyncmy's, in autocommit. Mutable."""

    def __init__(self, driver: AsyncSimulatedDriver, link: SimulatedLink) -> None:
        self._driver = driver
        self._link = link
        self._connection: SimulatedConnection | None = None
        self._flight: Flight | None = None

    @property
    def alive(self) -> bool:
        """Whether it is connected, as far as its client can know."""
        return self._connection is not None and self._connection.alive

    async def connect(self) -> None:
        """The handshake."""
        self._connection = self._link.connect(is_automatic=True)
        await self.ask("")

    async def ask(self, sql: str, args: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """One round trip; the rows. Raises `SimulatedError`."""
        connection = self._connection
        if connection is None or not connection.alive:
            raise SimulatedError(LOST_CONNECTION, "lost connection to the simulated server during query")
        driver = self._driver
        future: asyncio.Future[Flight] = driver.loop.create_future()
        flight = self._flight = Flight(connection, driver.alarm, _Settle(future), sql=sql, args=args)
        self._link.send(flight)
        await future
        if flight.code is not None:
            raise _raised(flight)
        return [] if flight.reply is None else flight.reply.rows or []

    def cursor(self) -> _AsyncCursor:
        """A cursor, for `async with`."""
        return _AsyncCursor(self)

    async def query(self, sql: str) -> None:
        """Run it, and ask for no rows."""
        await self.ask(sql)

    def close(self) -> None:
        """Give it up."""
        self._driver.hang_up(self)

    def hang_up(self) -> None:
        if self._flight is not None and not self._flight.over:
            self._link.abandon(self._flight)
        if self._connection is not None:
            self._link.close(self._connection)


class _Settle:
    """Ends the wait for a flight; nothing if its task was cancelled."""

    __slots__ = ("_future",)

    def __init__(self, future: asyncio.Future[Flight]) -> None:
        self._future = future

    def __call__(self, flight: Flight) -> None:
        if not self._future.done():
            self._future.set_result(flight)


class _AsyncCursor:
    """As asyncmy's: one statement at a time. Mutable: holds its rows."""

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
        """Run it; how many rows it gives. Raises `SimulatedError`."""
        self._rows, self._next = await self._connection.ask(sql, args), 0
        return len(self._rows)

    async def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, or None."""
        if self._next >= len(self._rows):
            return None
        self._next += 1
        return self._rows[self._next - 1]

    async def fetchall(self) -> list[tuple[Any, ...]]:
        """The rows that are left."""
        rows, self._next = self._rows[self._next :], len(self._rows)
        return rows
