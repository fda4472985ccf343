"""The lookups' connection pool: each connection is used by one call at a time; with a circuit breaker.

Answers to the pools of asyncmy and aiomysql, which connect while holding their lock, so that one stuck connect blocks
every caller (`docs/reference/references.md`, Measured), and to Nygard's circuit breaker. Invariants: every wait is
bounded; no connect holds a lock that a caller with a free connection needs; a connection with an error or a cancelled
call is never reused. An error raised here leaves open whether the statement took effect, unless its class says so.
The errors need no client library, so level sim raises the same ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, NoReturn

from harness.database.driver import AsyncDriver
from harness.database.transactions import Backoff, ErrorClass, class_of, code_of
from harness.database.watched_call import CALL, Statement, WatchedCall, WatchedConnection
from harness.system.choices import Choices


class MayAskAgain(Exception):
    """The read may be retried; `code` is the server's or driver's error number, or a name."""

    def __init__(self, code: int | str, message: str) -> None:
        super().__init__(f"{self._what} ({code}): {message}")
        self.code = code

    _what = "the database did not answer"


class ConnectionLost(MayAskAgain):
    """The connection was lost or could not be made; whether the statement took effect is unknown."""

    _what = "connection to the database lost"


class NoFreeConnection(ConnectionLost):
    """Every connection was in use for the longest time that a call may wait; nothing was sent."""

    _what = "no connection to the database"


class CircuitOpen(ConnectionLost):
    """The pool makes no connects for a while, because several in a row failed; nothing was sent."""

    _what = "no connection to the database"


class StatementEnded(MayAskAgain):
    """The server ended the statement or cannot run it now; it had no effect, and the connection may be alive."""

    _what = "the database ended the statement"


_FAILURES_MAX = 5
_PROBE_S = 0.025
"""How long a caller waits at least, for example while another one makes the trial connection."""


class Circuit:
    """A pool's circuit breaker: after several failed connects in a row it refuses connects for a while (open).

    Then it is half-open: one trial connection is made, and only its success closes the circuit. Mutable. `now_s` is
    the loop's clock; `backoff` decides how long it stays open.
    """

    def __init__(
        self, *, now_s: Callable[[], float], backoff: Backoff, failures_max: int = _FAILURES_MAX
    ) -> None:
        self._now_s = now_s
        self._backoff = backoff
        self._failures_max = failures_max
        self._failures = 0
        self._open_until_s = 0.0
        self._is_probing = False

    @property
    def is_closed(self) -> bool:
        """Whether connects are made without restriction."""
        return self._failures < self._failures_max

    def admits(self) -> bool:
        """Whether the caller may connect now.

        Half-open: the first caller allowed through makes the trial connection.
        """
        if self.is_closed:
            return True
        if self._is_probing or self._now_s() < self._open_until_s:
            return False
        self._is_probing = True
        return True

    @property
    def wait_s(self) -> float:
        """How long a refused caller should wait before it asks again; always above 0."""
        return max(self._open_until_s - self._now_s(), _PROBE_S)

    def succeeded(self) -> None:
        self._is_probing = False
        self._failures = 0
        self._backoff.reset()

    def failed(self) -> None:
        self._is_probing = False
        self._failures += 1
        if not self.is_closed:
            self._open_until_s = self._now_s() + self._backoff.next_ms() / 1000

    def abandoned(self) -> None:
        """A connect was cancelled: its result is unknown, and another trial connection may be made."""
        self._is_probing = False


_CONNECTS_AT_ONCE = 8
"""Handshakes at a time, so that a server that has just restarted is not flooded."""
_IDLE_S = 600
"""The server closes a connection idle for this long, for clients that vanished without closing."""
_HUNG_UP = 2006


def _nothing(code: int | str) -> None:
    """Default callback: ignores the error code."""


class _Lease:
    """The context manager of one call's connection; the `WatchedCall` of a user's lookup records what happens.

    A class, because a generator would cost more than the rest of a lookup.
    """

    __slots__ = ("_call", "_connection", "_limit", "_pool", "_statement")

    def __init__(self, pool: ConnectionPool, statement: Statement | None) -> None:
        """`statement`: the only one that is sent; None: the user's code sends some."""
        self._pool = pool
        self._limit = asyncio.timeout(pool.query_s)
        self._connection: Any = None
        self._statement = statement
        self._call: WatchedCall | None = CALL.get()

    async def __aenter__(self) -> Any:
        call = self._call
        if call is None:
            self._connection = await self._pool.lend(self._limit)
            return self._connection
        call.asks()
        try:
            connection = self._connection = await self._pool.lend(self._limit)
        except Exception as error:
            call.note_error(error, self._statement)
            raise
        call.lends(self, is_users=self._statement is None)
        if self._statement is not None:
            return connection
        return WatchedConnection(connection, call, self._pool.errors)

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        call = self._call
        if call is None:
            await self._pool.take_back(self._connection, self._limit, error)
            return
        call.returns(self)
        try:
            await self._pool.take_back(self._connection, self._limit, error)
        except Exception as raised:
            call.note_error(raised, self._statement)
            raise
        if error is None:
            call.answers(self._statement)


class ConnectionPool:
    """Holds at most `size` connections of `driver`, made on demand; the one used last is reused first.

    `on_loss(code)` is called for every connection that was lost or refused, `on_error(code)` for every other error of
    the server; a fault's evidence is built on both.
    """

    def __init__(
        self,
        driver: AsyncDriver,
        *,
        size: int,
        seed: int = 0,
        connect_s: float = 2.0,
        query_s: float = 10.0,
        slot_s: float = 30.0,
        on_loss: Callable[[int | str], None] = _nothing,
        on_error: Callable[[int | str], None] = _nothing,
    ) -> None:
        self._driver = driver
        self.errors = (*driver.errors, TimeoutError)
        """What the driver raises, and what a passed limit does."""
        self.size = size
        self._connect_s = connect_s
        self.query_s = query_s
        self._slot_s = slot_s
        self._on_loss = on_loss
        self._on_error = on_error
        self._slots = asyncio.Semaphore(size)
        self._connecting = asyncio.Semaphore(_CONNECTS_AT_ONCE)
        self._circuit = Circuit(
            now_s=lambda: asyncio.get_running_loop().time(),
            backoff=Backoff(Choices(seed, "circuit of the lookups' pool")),
        )
        self.opened = 0
        """Connections made so far."""
        self.waited = 0
        """Calls that had to wait for a free connection."""
        self._longest_wait_ms = 0.0
        self._waiting: dict[object, float] = {}
        """When the calls began to wait that have no connection yet."""
        self.calm_asked = 0
        """Calls before the first error of the pool, and below how many of them had to wait."""
        self.calm_waited = 0
        self._is_calm = True
        self._free: list[Any] = []
        self._open: dict[Any, None] = {}
        """Every connection with a socket: idle, in use, or in its handshake."""
        self._is_closed = False

    async def fetch_one(self, sql: str, args: Sequence[object] = ()) -> tuple[Any, ...] | None:
        """The first row of `sql`, or None. Raises `ConnectionLost`, `StatementEnded`, or the server's own error."""
        rows = await self.fetch_all(sql, args)
        return rows[0] if rows else None

    async def fetch_all(self, sql: str, args: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """All rows of `sql`. Raises `ConnectionLost`, `StatementEnded`, or the server's own error."""
        async with _Lease(self, (sql, args)) as connection, connection.cursor() as cursor:
            await cursor.execute(sql, args)
            return list(await cursor.fetchall())

    def connection(self) -> _Lease:
        """A connection for one call (`async with`); the query limit covers the whole block."""
        return _Lease(self, None)

    async def lend(self, limit: asyncio.Timeout) -> object:
        """For `_Lease`: wait for a slot, then get a connection within `limit`. Raises like `fetch_all`."""
        self.calm_asked += self._is_calm
        if self._slots.locked():
            await self._wait_for_slot()
        else:
            await self._slots.acquire()  # at once
        await limit.__aenter__()
        try:
            return self._idle() or await self._connect()
        except BaseException as error:
            await self._end(limit, error)
            raise

    async def take_back(
        self, connection: object, limit: asyncio.Timeout, error: BaseException | None
    ) -> None:
        """For `_Lease`: the block has ended, with `error` if it failed. Raises like `fetch_all`."""
        if error is None:
            self._give_back(connection)
        else:
            self._hang_up(connection)
        await self._end(limit, error)

    async def _end(self, limit: asyncio.Timeout, error: BaseException | None) -> None:
        """Release the slot; turn a database error or the passed limit into the pool's errors."""
        try:
            await limit.__aexit__(None if error is None else type(error), error, None)
        except TimeoutError as late:
            error = late
        finally:
            self._slots.release()
        if isinstance(error, Exception) and isinstance(error, self.errors):
            self._raise(error)

    async def _wait_for_slot(self) -> None:
        loop, call = asyncio.get_running_loop(), CALL.get()
        waiter = object()
        self._waiting[waiter] = loop.time()
        self.waited += 1
        self.calm_waited += self._is_calm
        try:
            async with asyncio.timeout(self._slot_s):
                with nullcontext() if call is None else call.waits():
                    await self._slots.acquire()
        except TimeoutError:
            message = f"all {self.size} connections of the pool were in use for {self._slot_s:g} s"
            raise NoFreeConnection("all in use", message) from None
        finally:
            self._longest_wait_ms = self.longest_wait_ms(now_s=loop.time())
            del self._waiting[waiter]

    def longest_wait_ms(self, *, now_s: float) -> float:
        """Of any call for a free connection, also of those that wait at this time."""
        waits = (round((now_s - began_s) * 1000, 1) for began_s in self._waiting.values())
        return max(self._longest_wait_ms, *waits, 0.0)

    def _idle(self) -> object:
        """The idle connection used last, or None. One that died while idle is reported as a loss; the call goes on."""
        while self._free:
            connection = self._free.pop()
            if not self._driver.is_broken(connection):
                return connection
            self._hang_up(connection)
            self._is_calm = False
            self._on_loss(_HUNG_UP)
        return None

    async def _connect(self) -> object:
        async with self._connecting:
            if (connection := self._idle()) is not None:  # returned while this call waited for its turn
                return connection
            if self._circuit.admits():
                return await self._dial_as_circuit_asks()
        # Wait before raising: a caller that retries without a pause would keep the loop busy for ever.
        await asyncio.sleep(self._circuit.wait_s)
        raise CircuitOpen("circuit open", "connects have failed in a row; ask again")

    async def _dial_as_circuit_asks(self) -> object:
        try:
            connection = await self._dial()
        except asyncio.CancelledError:
            self._circuit.abandoned()
            raise
        except Exception:
            self._circuit.failed()
            raise
        self._circuit.succeeded()
        return connection

    async def _dial(self) -> object:
        connection = self._driver.connection()
        self._open[connection] = None
        self.opened += 1
        call = CALL.set(None)  # the pool connects, not the call that asked
        try:
            async with asyncio.timeout(self._connect_s):
                await self._driver.open(connection, session=self._session_limits())
        except BaseException:
            self._hang_up(connection)
            raise
        finally:
            CALL.reset(call)
        return connection

    def _session_limits(self) -> str:
        """The server goes on working after a client has given up, so its time is limited by the session, too."""
        statement_s = round(self.query_s) + 1
        return (
            f"SET SESSION wait_timeout = CAST(LEAST(@@GLOBAL.wait_timeout, {_IDLE_S}) AS UNSIGNED)"
            f"/*M!100100 , max_statement_time = {statement_s}*/"
            f"/*!80000 , max_execution_time = {statement_s * 1000}*/"
        )

    def _give_back(self, connection: object) -> None:
        if self._is_closed:
            self._hang_up(connection)
        else:
            self._free.append(connection)

    def _hang_up(self, connection: object) -> None:
        """Close the socket now, without waiting for unsent bytes or COM_QUIT."""
        self._open.pop(connection, None)
        self._driver.hang_up(connection)

    def _raise(self, error: Exception) -> NoReturn:
        code = code_of(error)
        self._is_calm = False
        match class_of(code):
            case ErrorClass.RECONNECT:
                self._on_loss(code)
                raise ConnectionLost(code, str(error)) from error
            case ErrorClass.RETRY | ErrorClass.BACK_OFF:
                self._on_error(code)
                raise StatementEnded(code, str(error)) from error
            case ErrorClass.DONE | ErrorClass.FAIL:
                self._on_error(code)
                raise error

    def close(self) -> None:
        """Close every connection, including those in use."""
        self._is_closed = True
        self._free.clear()
        for connection in list(self._open):
            self._hang_up(connection)
