"""The pool of a user's own lookup: SQL over a simulated link, in virtual time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from harness.checkers.judge import judge
from harness.database.connection_lost import ConnectionLost
from harness.faults.simulated.shut_port import ShutPort as Down
from harness.history.event import Failed, In, Out
from harness.history.header import Header, Operator
from harness.sim.attempt import Attempt
from harness.sim.pool import MemoryTables, SimulatedPool
from harness.sim.tests.sim_rig import SmallRun, small_run
from harness.sut.enrichment import enrich
from harness.verdict import Outcome
from reference_impl.async_function import AsyncFunction
from reference_impl.coroutine_function import from_coroutine

HEADER = Header(operator=Operator(mode="ordered", capacity=4, timeout_ms=0), sink="atomic", effects="outputs")


def with_lookup(lookup: Callable[[Any, Any], Awaitable[Any]]) -> SmallRun:
    """Six records, each answered by `lookup(record, pool)`."""
    tables = MemoryTables((key, f"customer {key}", "city", 1) for key in range(6))

    def function(attempt: Attempt) -> AsyncFunction:
        assert attempt.loop is not None
        pool = SimulatedPool(attempt.client, tables, loop=attempt.loop)
        return from_coroutine(enrich(lookup, pool), loop=attempt.loop)

    return small_run(function=function)


def verdict(small: SmallRun) -> Outcome:
    return judge(HEADER, small.run.tape.events).outcome


async def by_cursor(record: Any, pool: Any) -> str:
    """As one uses a driver."""
    async with pool.connection() as connection, connection.cursor() as cursor:
        rows = await cursor.execute("SELECT name FROM customer WHERE k = %s", (record.key,))
        assert rows == 1
        (name,) = await cursor.fetchone()
        assert await cursor.fetchall() == []
        return str(name)


def test_a_cursor_gives_the_rows_of_its_statement() -> None:
    small = with_lookup(by_cursor)

    small.go()

    assert verdict(small) is Outcome.PASS


async def slowly(record: Any, pool: Any) -> str:
    """The database sleeps, in its own time."""
    name, _ = await pool.fetch_one("SELECT name, SLEEP(%s) FROM customer WHERE k = %s", (0.5, record.key))
    return str(name)


def test_a_statement_that_sleeps_takes_virtual_time() -> None:
    small = with_lookup(slowly)

    small.go()

    taken = next(event.t for event in small.run.tape.events if isinstance(event, In))
    left = next(event.t for event in small.run.tape.events if isinstance(event, Out))
    assert 500_000 <= left - taken <= 510_000


async def once(record: Any, pool: Any) -> str:
    """A user who does not think of lost connections."""
    (name,) = await pool.fetch_one("SELECT name FROM customer WHERE k = %s", (record.key,))
    return str(name)


async def again(record: Any, pool: Any) -> str:
    """A user who does."""
    while True:
        try:
            return await once(record, pool)
        except ConnectionLost:
            continue


def test_a_cut_connection_raises_what_the_real_pool_raises() -> None:
    careless, careful = with_lookup(once), with_lookup(again)
    for small in (careless, careful):
        link, fault, hub = small.run.links["lookups"], Down(), small.run.hub
        hub.at(4, lambda link=link, fault=fault: link.begin(fault))  # type: ignore[misc]  # bound in a loop
        hub.at(30, lambda link=link, fault=fault: link.heal(fault))  # type: ignore[misc]  # bound in a loop
        small.go()

    failures = [event for event in careless.run.tape.events if isinstance(event, Failed)]
    assert "ConnectionLost" in str(failures[0].error)
    assert verdict(careful) is Outcome.PASS
    assert not [event for event in careful.run.tape.events if isinstance(event, Failed)]
