"""The pool: every wait ends, nothing waits for somebody else's connect, and no answer is another's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from asyncmy.errors import MySQLError

from harness.database.driver import AsyncMySqlDriver
from harness.database.pool import ConnectionLost, ConnectionPool
from harness.database.tests.conftest import RunDatabase
from harness.faults.real.fault_site import ToxicRequest
from harness.system.choices import Choices
from harness.system.clock import monotonic_us
from reference_impl.mailbox.loops import real_loop

pytestmark = pytest.mark.real

LIMIT_S = 0.3
SLACK_S = 30.0
"""What a busy machine may add to a limit; far below the time that an unlimited wait takes."""


def run(work: Callable[[ConnectionPool], Awaitable[Any]], database: RunDatabase, **settings: Any) -> Any:
    """`work` on a pool of the lookups' link, on a loop of its own."""
    with real_loop() as loop:
        return loop.run_until_complete(_worked(work, database, settings))


async def _worked(
    work: Callable[[ConnectionPool], Awaitable[Any]], database: RunDatabase, settings: Any
) -> Any:
    pool = ConnectionPool(AsyncMySqlDriver(database.lookups), **{"size": 4, **settings})
    try:
        return await work(pool)
    finally:
        pool.close()


def swallow(database: RunDatabase) -> None:
    for stream in ("upstream", "downstream"):
        toxic = ToxicRequest(name=f"hole-{stream}", type="timeout", stream=stream, attributes={"timeout": 0})
        database.proxy.add_toxic("lookups", toxic)


async def connection_id(pool: ConnectionPool) -> int:
    row = await pool.fetch_one("SELECT CONNECTION_ID()")
    assert row is not None
    return int(row[0])


def test_a_row_or_none_and_all_rows(database: RunDatabase) -> None:
    async def work(pool: ConnectionPool) -> Any:
        return [
            await pool.fetch_one("SELECT name FROM customer WHERE k = %s", (3,)),
            await pool.fetch_one("SELECT name FROM customer WHERE k = %s", (999,)),
            await pool.fetch_all("SELECT k FROM customer WHERE k < 3 ORDER BY k"),
        ]

    assert run(work, database) == [("name 3",), None, [(0,), (1,), (2,)]]


def test_a_connection_is_used_again(database: RunDatabase) -> None:
    async def work(pool: ConnectionPool) -> list[int]:
        return [await connection_id(pool) for _ in range(3)]

    assert len(set(run(work, database))) == 1


def test_no_more_connections_than_its_size(database: RunDatabase) -> None:
    async def work(pool: ConnectionPool) -> int:
        queries = [pool.fetch_one("SELECT CONNECTION_ID(), SLEEP(0.02)") for _ in range(12)]
        rows = await asyncio.gather(*queries)
        return len({row[0] for row in rows if row is not None})

    assert run(work, database, size=3) == 3


@pytest.mark.parametrize("warm", [True, False], ids=["a query in flight", "a new connect"])
def test_a_black_hole_ends_every_wait_at_its_limit(database: RunDatabase, warm: bool) -> None:  # noqa: FBT001 - a case
    lost: list[int | str] = []

    async def work(pool: ConnectionPool) -> int:
        if warm:
            await connection_id(pool)
        swallow(database)
        began_us = monotonic_us()
        with pytest.raises(ConnectionLost):
            await pool.fetch_one("SELECT 1")
        return monotonic_us() - began_us

    took_us = run(work, database, query_s=LIMIT_S, connect_s=LIMIT_S, on_loss=lost.append)

    assert took_us < (LIMIT_S + SLACK_S) * 1_000_000
    assert len(lost) == 1


def test_many_waiting_in_a_black_hole_all_come_back(database: RunDatabase) -> None:
    async def work(pool: ConnectionPool) -> list[Any]:
        await connection_id(pool)
        swallow(database)
        calls = [pool.fetch_one("SELECT 1") for _ in range(8)]
        return await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 2 * LIMIT_S + SLACK_S)

    answers = run(work, database, size=4, query_s=LIMIT_S, connect_s=LIMIT_S)

    assert [type(answer) for answer in answers] == [ConnectionLost] * 8


def test_after_a_black_hole_the_pool_works_again(database: RunDatabase) -> None:
    async def work(pool: ConnectionPool) -> Any:
        swallow(database)
        with pytest.raises(ConnectionLost):
            await pool.fetch_one("SELECT 1")
        for stream in ("upstream", "downstream"):
            database.proxy.remove_toxic("lookups", f"hole-{stream}")
        return await pool.fetch_one("SELECT 2")

    assert run(work, database, size=1, query_s=LIMIT_S, connect_s=LIMIT_S) == (2,)


def test_a_stuck_connect_does_not_keep_others_from_a_free_connection(
    database: RunDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(pool: ConnectionPool) -> bool:
        async with pool.connection():
            monkeypatch.setattr(pool, "_connect", asyncio.Event().wait)
            stuck = asyncio.ensure_future(pool.fetch_one("SELECT 1"))
            await asyncio.sleep(0)
        free = await asyncio.wait_for(pool.fetch_one("SELECT 7"), SLACK_S)
        assert free == (7,)
        still_stuck = not stuck.done()
        stuck.cancel()
        return still_stuck

    assert run(work, database, size=2)


def test_a_connection_that_saw_an_error_is_not_used_again(database: RunDatabase) -> None:
    async def work(pool: ConnectionPool) -> tuple[int, int]:
        before = await connection_id(pool)
        with pytest.raises(MySQLError):
            await pool.fetch_one("SELECT nonsense FROM nowhere")
        return before, await connection_id(pool)

    before, after = run(work, database)
    assert before != after


def test_a_connection_whose_call_was_cancelled_is_not_used_again(database: RunDatabase) -> None:
    async def work(pool: ConnectionPool) -> tuple[int, int]:
        before = await connection_id(pool)
        call = asyncio.ensure_future(pool.fetch_one("SELECT 'foreign', SLEEP(0.2)"))
        asyncio.get_running_loop().call_later(0.02, call.cancel)
        with pytest.raises(asyncio.CancelledError):
            await call
        return before, await connection_id(pool)

    before, after = run(work, database)
    assert before != after


def test_a_servers_own_error_is_passed_on_and_is_no_loss(database: RunDatabase) -> None:
    lost: list[int | str] = []

    async def work(pool: ConnectionPool) -> None:
        await pool.fetch_one("SELECT nonsense FROM nowhere")

    with pytest.raises(MySQLError) as refused:
        run(work, database, on_loss=lost.append)

    assert refused.value.args[0] == 1146
    assert lost == []


@pytest.mark.parametrize("warm", [True, False], ids=["a live connection is cut", "a new one is refused"])
def test_a_loss_is_told_with_its_code(database: RunDatabase, warm: bool) -> None:  # noqa: FBT001 - a case
    lost: list[int | str] = []

    async def work(pool: ConnectionPool) -> None:
        if warm:
            await connection_id(pool)
        database.proxy.disable("lookups")
        with pytest.raises(ConnectionLost) as loss:
            await pool.fetch_one("SELECT 1")
        assert [loss.value.code] == lost

    run(work, database, on_loss=lost.append)

    assert lost[0] in {2003, 2006, 2013, "ConnectionResetError", "ConnectionRefusedError"}


def test_a_storm_of_cancellations_never_hands_out_a_foreign_row(database: RunDatabase) -> None:
    """Each query carries a nonce; whoever is not cancelled must get its own back (infrastructure 4)."""
    choices = Choices(20_260_101, "cancel storm")

    async def ask(pool: ConnectionPool, nonce: int) -> int:
        row = await pool.fetch_one("SELECT %s, SLEEP(%s)", (nonce, choices.between(0, 8) / 1000))
        assert row is not None
        return int(row[0])

    async def work(pool: ConnectionPool) -> list[tuple[int, Any]]:
        calls = [asyncio.ensure_future(ask(pool, nonce)) for nonce in range(400)]
        loop = asyncio.get_running_loop()
        for call in calls:
            if choices.index(2):
                loop.call_later(choices.between(0, 300) / 1000, call.cancel)
        return list(enumerate(await asyncio.gather(*calls, return_exceptions=True)))

    answers = run(work, database, size=8)

    told = [(nonce, answer) for nonce, answer in answers if isinstance(answer, int)]
    assert [answer for _, answer in told] == [nonce for nonce, _ in told]
    assert all(isinstance(answer, int | asyncio.CancelledError) for _, answer in answers)
    assert len(told) > 100
    assert len(answers) - len(told) > 20


def test_nobody_who_is_cancelled_while_waiting_keeps_a_slot(database: RunDatabase) -> None:
    async def work(pool: ConnectionPool) -> Any:
        calls = [asyncio.ensure_future(pool.fetch_one("SELECT SLEEP(0.05)")) for _ in range(6)]
        for call in calls:
            asyncio.get_running_loop().call_later(0.01, call.cancel)
        await asyncio.gather(*calls, return_exceptions=True)
        return await asyncio.wait_for(
            asyncio.gather(*(pool.fetch_one("SELECT 1") for _ in range(2))), SLACK_S
        )

    assert run(work, database, size=2) == [(1,), (1,)]
