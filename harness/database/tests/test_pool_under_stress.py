"""The pool under stress: what cancellations, kills and a dead server leave, counted by the server itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from harness.database.driver import AsyncMySqlDriver
from harness.database.pool import (
    CircuitOpen,
    ConnectionLost,
    ConnectionPool,
    MayAskAgain,
    NoFreeConnection,
    StatementEnded,
)
from harness.database.tests.conftest import RunDatabase
from harness.system.choices import Choices
from harness.system.clock import Deadline, wait_until
from reference_impl.mailbox.loops import real_loop

pytestmark = pytest.mark.real

LIMIT_S = 60.0
CALLS = 10_000
NEVER = 3
"""The moment of cancellation that does not come."""
CALLERS = 40
SIZE = 20


def run(work: Callable[[ConnectionPool], Awaitable[Any]], database: RunDatabase, **settings: Any) -> Any:
    """`work` on a pool of the lookups' link, on a loop of its own."""

    async def worked() -> Any:
        pool = ConnectionPool(AsyncMySqlDriver(database.lookups), **{"size": SIZE, **settings})
        try:
            return await work(pool)
        finally:
            pool.close()

    with real_loop() as loop:
        return loop.run_until_complete(worked())


def sessions(database: RunDatabase) -> list[int]:
    """The ids of the server's sessions in this database, but for the one that asks."""
    sql = (
        "SELECT id FROM information_schema.processlist"
        f" WHERE db = '{database.root.database}' AND id <> CONNECTION_ID()"
    )
    return [row[0] for row in database.rows(sql)]


def status(database: RunDatabase, name: str) -> int:
    return int(database.rows(f"SHOW GLOBAL STATUS LIKE '{name}'")[0][1])


async def one_call(pool: ConnectionPool, nonce: int, choices: Choices) -> str:
    """Ask with a nonce; in three of four cases be cancelled at some point of the way.

    What came of it: `own` or `foreign` answer of a call that nothing cancelled, `in time` of one that was to be
    cancelled and had its own answer by then, or `cancelled`.
    """

    async def ask() -> Any:
        return await pool.fetch_one("SELECT %s, SLEEP(%s)", (nonce, choices.between(0, 3) / 1000))

    call = asyncio.ensure_future(ask())
    moment = choices.index(4)
    match moment:
        case 0:
            for _ in range(choices.index(30)):
                await asyncio.sleep(0)
            call.cancel()
        case 1 | 2:
            await asyncio.sleep(choices.index(6000) / 1_000_000)
            call.cancel()
    with suppress(asyncio.CancelledError):
        row = await call
        if int(row[0]) != nonce:
            return "foreign"
        return "own" if moment == NEVER else "in time"
    return "cancelled"


def test_a_storm_of_cancellations_leaks_no_connection_and_gives_nobody_a_foreign_row(
    database: RunDatabase,
) -> None:
    """Ten thousand cancellations at any await point: in the wait for a slot, the handshake, the query."""
    choices = Choices(20_260_102, "cancel storm")
    peaks: list[int] = []

    async def caller(pool: ConnectionPool, first: int) -> list[str]:
        told = []
        for nonce in range(first, CALLS, CALLERS):
            told.append(await one_call(pool, nonce, choices))
            if nonce % 500 == 0:
                peaks.append(len(pool._open))
        return told

    async def work(pool: ConnectionPool) -> list[str]:
        callers = await asyncio.gather(*(caller(pool, first) for first in range(CALLERS)))
        assert len(pool._open) == len(pool._free)
        assert pool._slots._value == SIZE
        return [answer for told in callers for answer in told]

    before, made_before = status(database, "Threads_connected"), status(database, "Connections")

    told = run(work, database)

    assert told.count("foreign") == 0
    assert told.count("cancelled") > CALLS // 3
    assert told.count("own") > CALLS // 5  # a quarter is never cancelled
    assert told.count("in time") > CALLS // 100  # fewer on a loaded machine, which answers later
    assert status(database, "Connections") - made_before > 500
    assert max(peaks) <= SIZE
    assert wait_until(lambda: not sessions(database), deadline=Deadline(LIMIT_S))
    assert wait_until(lambda: status(database, "Threads_connected") <= before, deadline=Deadline(LIMIT_S))


def test_a_wait_for_a_slot_has_an_end(database: RunDatabase) -> None:
    async def work(pool: ConnectionPool) -> None:
        async with pool.connection():
            with pytest.raises(
                NoFreeConnection, match=r"all 1 connections of the pool were in use for 0.1 s"
            ):
                await pool.fetch_one("SELECT 1")

    run(work, database, size=1, slot_s=0.1)


def test_a_pool_that_is_closed_leaves_no_session_of_calls_still_in_flight(database: RunDatabase) -> None:
    async def work(pool: ConnectionPool) -> None:
        calls = [asyncio.ensure_future(pool.fetch_one("SELECT SLEEP(0.3)")) for _ in range(5)]
        await asyncio.sleep(0.1)
        pool.close()
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(answer) for answer in answers] == [ConnectionLost] * 5

    run(work, database)

    assert wait_until(lambda: not sessions(database), deadline=Deadline(LIMIT_S))


def test_an_idle_connection_that_the_server_killed_is_a_loss_and_nobodys_error(database: RunDatabase) -> None:
    lost: list[int | str] = []

    async def work(pool: ConnectionPool) -> Any:
        await pool.fetch_one("SELECT 1")
        (victim,) = sessions(database)
        database.rows(f"KILL CONNECTION {victim}")
        assert wait_until(lambda: victim not in sessions(database), deadline=Deadline(LIMIT_S))
        await asyncio.sleep(0.05)
        return await pool.fetch_one("SELECT 2")

    assert run(work, database, on_loss=lost.append) == (2,)
    assert lost == [2006]


def test_a_statement_that_the_server_kills_may_be_asked_again_and_is_told_as_an_error(
    database: RunDatabase,
) -> None:
    lost: list[int | str] = []
    errors: list[int | str] = []

    async def work(pool: ConnectionPool) -> None:
        call = asyncio.ensure_future(
            pool.fetch_one("SELECT COUNT(*) FROM customer a, customer b, customer c, customer d, customer e")
        )
        await asyncio.sleep(0.05)
        for victim in sessions(database):
            database.rows(f"KILL QUERY {victim}")
        with pytest.raises(StatementEnded) as ended:
            await call
        assert ended.value.code == 1317

    run(work, database, on_loss=lost.append, on_error=errors.append)

    assert (lost, errors) == ([], [1317])


def test_while_nobody_answers_few_connects_are_made_and_afterwards_all_goes_on(database: RunDatabase) -> None:
    """Forty callers that ask again and again are no herd: the circuit lets one probe through at a time."""
    lost: list[int | str] = []
    refused: list[str] = []

    async def ask(pool: ConnectionPool) -> Any:
        while True:  # without a pause of its own: the pool holds it off
            try:
                return await pool.fetch_one("SELECT 1")
            except CircuitOpen:
                refused.append("circuit")
            except MayAskAgain:
                refused.append("connect")

    async def work(pool: ConnectionPool) -> Any:
        database.proxy.disable("lookups")
        calls = [asyncio.ensure_future(ask(pool)) for _ in range(CALLERS)]
        await asyncio.sleep(0.5)
        database.proxy.enable("lookups")
        return await asyncio.wait_for(asyncio.gather(*calls), LIMIT_S)

    assert run(work, database, on_loss=lost.append) == [(1,)] * CALLERS
    assert 5 <= refused.count("connect") <= 30
    assert refused.count("circuit") >= SIZE
    assert len(lost) == refused.count("connect")
