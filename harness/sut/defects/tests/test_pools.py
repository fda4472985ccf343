"""Defects of the pool: over connections of a test's own, which know no driver, and over a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Self

import pytest

from harness.database.driver import AsyncMySqlDriver
from harness.database.pool import ConnectionLost, ConnectionPool
from harness.database.tests.conftest import RunDatabase
from harness.scenario.workloads.lookups import Lookup
from harness.sut.defects.pools import cancelling_nothing, losing_rows, reusing_cancelled, trusting
from harness.sut.lookup import ForeignAnswer, ReferenceLookup, own_nonces
from harness.sut.variant import Kind, same
from reference_impl.mailbox.loops import real_loop

REAL = pytest.mark.real
SLOW = "SELECT %s, SLEEP(0.2)"
CANCELLED_S = 0.05

Defect = Callable[[Kind], Kind]


def run(work: Callable[[Any], Awaitable[Any]], database: RunDatabase, defect: Defect, **settings: Any) -> Any:
    """`work` on a pool with `defect`, on a loop of its own."""

    async def worked() -> Any:
        pool = defect(ConnectionPool)(AsyncMySqlDriver(database.lookups), **{"size": 1, **settings})
        try:
            return await work(pool)
        finally:
            pool.close()

    with real_loop() as loop:
        return loop.run_until_complete(worked())


async def cancelled(call: Awaitable[Any]) -> Any:
    """What comes of `call`, which is cancelled while its answer is on the way."""
    task = asyncio.ensure_future(call)
    asyncio.get_running_loop().call_later(CANCELLED_S, task.cancel)
    with suppress(asyncio.CancelledError):
        return await task
    return "cancelled"


@REAL
@pytest.mark.parametrize("defect", [same, reusing_cancelled], ids=["honest", "reusing"])
def test_only_a_pool_that_reuses_a_cancelled_connection_gives_the_answer_of_the_call_before(
    database: RunDatabase, defect: Defect
) -> None:
    async def work(pool: Any) -> list[Any]:
        assert await cancelled(pool.fetch_all(SLOW, (7,))) == "cancelled"
        return [(await pool.fetch_all("SELECT %s, 0", (nonce,)))[0][0] for nonce in (8, 9)]

    assert run(work, database, defect) == ([7, 8] if defect is reusing_cancelled else [8, 9])


@REAL
def test_calls_that_nobody_cancels_get_their_own_answers_from_it(database: RunDatabase) -> None:
    async def work(pool: Any) -> list[Any]:
        return [
            rows[0][0]
            for rows in await asyncio.gather(*(pool.fetch_all("SELECT %s", (n,)) for n in range(9)))
        ]

    assert run(work, database, reusing_cancelled, size=2) == list(range(9))


@REAL
@pytest.mark.parametrize("trusts", [False, True], ids=["comparing", "trusting"])
def test_the_references_lookup_finds_a_foreign_answer_out_unless_it_trusts(
    database: RunDatabase,
    trusts: bool,  # noqa: FBT001 - a case
) -> None:
    async def work(pool: Any) -> Any:
        honest = ReferenceLookup(own_nonces())
        ask = trusting(honest) if trusts else honest
        await cancelled(ask(Lookup(id=1, key=3, service_ms=200), pool))
        return await ask(Lookup(id=2, key=4, service_ms=0), pool)

    if trusts:
        assert [row["name"] for row in run(work, database, reusing_cancelled)] == ["name 3"]
    else:
        with pytest.raises(ForeignAnswer):
            run(work, database, reusing_cancelled)


@REAL
def test_a_pool_that_is_closed_hangs_up_what_it_would_have_reused(database: RunDatabase) -> None:
    async def work(pool: Any) -> None:
        await cancelled(pool.fetch_all("SELECT SLEEP(5)"))
        pool.close()
        await asyncio.sleep(0)

    run(work, database, reusing_cancelled)


@REAL
@pytest.mark.parametrize("defect", [same, losing_rows], ids=["honest", "losing"])
def test_only_a_careless_pool_takes_a_loss_for_no_row(database: RunDatabase, defect: Defect) -> None:
    async def work(pool: Any) -> Any:
        await pool.fetch_all("SELECT 1")
        database.proxy.disable("lookups")
        return await pool.fetch_all("SELECT 1")

    if defect is losing_rows:
        assert run(work, database, defect) == []
    else:
        with pytest.raises(ConnectionLost):
            run(work, database, defect)


@REAL
@pytest.mark.parametrize("defect", [same, cancelling_nothing], ids=["honest", "dogged"])
def test_only_a_pool_that_cannot_stop_answers_a_cancelled_call(database: RunDatabase, defect: Defect) -> None:
    async def work(pool: Any) -> Any:
        return await cancelled(pool.fetch_all(SLOW, (7,)))

    assert run(work, database, defect) == ([(7, 0)] if defect is cancelling_nothing else "cancelled")


@REAL
def test_a_pool_that_cannot_stop_stops_when_it_is_closed(database: RunDatabase) -> None:
    async def work(pool: Any) -> Any:
        call = asyncio.ensure_future(pool.fetch_all("SELECT SLEEP(5)"))
        await asyncio.sleep(CANCELLED_S)
        pool.close()
        call.cancel()
        async with asyncio.timeout(2):
            with pytest.raises((asyncio.CancelledError, ConnectionLost)):
                await call

    run(work, database, cancelling_nothing)


class _Cursor:
    """Answers each statement with its own arguments, once it has been let."""

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection
        self._rows: list[tuple[Any, ...]] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def execute(self, sql: str, args: Sequence[Any]) -> None:
        del sql
        await self._connection.answers.wait()
        self._rows = [tuple(args)]

    async def fetchall(self) -> list[tuple[Any, ...]]:
        return self._rows


class _Connection:
    """Of no driver."""

    def __init__(self) -> None:
        self.answers = asyncio.Event()
        self.is_hung_up = False

    def cursor(self) -> _Cursor:
        return _Cursor(self)


class _OneConnection:
    """As much of a pool as a defect may know: it has one connection, and gives it to one call at a time."""

    def __init__(self) -> None:
        self.only = _Connection()
        self._is_closed = False
        self.given_back = 0

    def connection(self) -> Any:
        return self

    async def __aenter__(self) -> _Connection:
        return self.only

    async def __aexit__(self, kind: object, *_: object) -> None:
        (self._hang_up if kind else self._give_back)(self.only)

    def _give_back(self, connection: _Connection) -> None:
        del connection
        self.given_back += 1

    def _hang_up(self, connection: _Connection) -> None:
        connection.is_hung_up = True


def test_a_foreign_answer_needs_nothing_of_the_driver() -> None:
    async def work() -> tuple[Any, Any, bool]:
        pool = reusing_cancelled(_OneConnection)()
        call = asyncio.ensure_future(pool.fetch_all("?", (7,)))
        await asyncio.sleep(0)
        call.cancel()
        with suppress(asyncio.CancelledError):
            await call
        pool.only.answers.set()
        return await pool.fetch_all("?", (8,)), await pool.fetch_all("?", (9,)), pool.only.is_hung_up

    with real_loop() as loop:
        assert loop.run_until_complete(work()) == ([(7,)], [(8,)], False)


def test_an_error_of_its_own_hangs_up_as_ever() -> None:
    class Broken(_OneConnection):
        def __init__(self) -> None:
            super().__init__()
            self.only.cursor = lambda: 1 / 0  # type: ignore[assignment,return-value]

    async def work() -> bool:
        pool = reusing_cancelled(Broken)()
        with pytest.raises(ZeroDivisionError):
            await pool.fetch_all("?", (7,))
        hung_up: bool = pool.only.is_hung_up
        return hung_up

    with real_loop() as loop:
        assert loop.run_until_complete(work())
