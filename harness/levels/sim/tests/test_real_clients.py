"""Real clients and a real server in virtual time: what they do, what waits, what the clock decides, what is refused."""

from __future__ import annotations

import asyncio
import datetime as dt
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, suppress
from hashlib import sha256
from typing import Any, Final

import aiomysql
import asyncmy
import pymysql
import pytest
from asyncmy.errors import MySQLError
from mysql.connector import aio as connector
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from harness.database.endpoint import connect
from harness.engine.level import Opening
from harness.levels.sim import bridge
from harness.levels.sim.real_tables import RealTables, real_tables
from harness.levels.sim.tests.wired_clients import Wired, play
from harness.scenario.file import loads
from harness.system.choices import Draw
from harness.system.clock import monotonic_us
from harness.system.errors import SutError, WorldError

pytestmark = [pytest.mark.real, pytest.mark.timeout(120)]

ROWS: Final = [[key, f"name {key}", "city", key] for key in range(1, 9)]
CALM: Final = loads("""
scenario: clients-alone
about: Only its table is used here, by clients without an operator.
levels: [sim]
operator: {mode: ordered, capacity: 1}
workload: {records: 1}
decisive: [V1]
""")


@pytest.fixture(scope="module")
def opened() -> Iterator[RealTables]:
    with real_tables(Opening(world="local")) as found:
        yield found


@pytest.fixture
def tables(opened: RealTables) -> RealTables:
    opened.fill(CALM, ROWS)
    return opened


# ---------------------------------------------------------------------------- what each client can do


class Driver:
    """One client, by the few things that all have. `prepared` and `streamed` are None where it has no such thing."""

    prepared: Callable[[Any, int], Awaitable[Any]] | None = None
    streamed: Callable[[Any], Awaitable[list[Any]]] | None = None

    async def connect(self, wired: Wired) -> Any:
        raise NotImplementedError

    async def ask(self, connection: Any, sql: str, *args: object) -> Any:
        async with connection.cursor() as cursor:
            await cursor.execute(sql, args or None)
            return list(await cursor.fetchall())

    async def end(self, connection: Any) -> None:
        connection.close()


def named(wired: Wired, database: str) -> dict[str, Any]:
    at = wired.at
    return {
        "host": at.host, "port": at.port, "user": at.user, "password": at.password, database: at.database,
    }  # fmt: skip


class OfAsyncmy(Driver):
    async def connect(self, wired: Wired) -> Any:
        return await asyncmy.connect(**named(wired, "database"), autocommit=True)

    async def prepared(self, connection: Any, key: int) -> Any:
        statement = await connection.prepare("SELECT name FROM customer WHERE k = ?")
        return (await statement.execute((key,))).rows[0]

    async def streamed(self, connection: Any) -> list[Any]:
        async with connection.cursor(asyncmy.cursors.SSCursor) as cursor:
            await cursor.execute("SELECT k FROM customer ORDER BY k")
            return [row[0] async for row in cursor]


class OfAiomysql(Driver):
    async def connect(self, wired: Wired) -> Any:
        return await aiomysql.connect(**named(wired, "db"), autocommit=True)

    async def streamed(self, connection: Any) -> list[Any]:
        async with connection.cursor(aiomysql.SSCursor) as cursor:
            await cursor.execute("SELECT k FROM customer ORDER BY k")
            return [row[0] async for row in cursor]


class OfConnector(Driver):
    async def connect(self, wired: Wired) -> Any:
        return await connector.connect(**named(wired, "database"), autocommit=True, ssl_disabled=True)

    async def ask(self, connection: Any, sql: str, *args: object) -> Any:
        cursor = await connection.cursor()
        await cursor.execute(sql, args or None)
        rows = list(await cursor.fetchall())
        await cursor.close()
        return rows

    async def prepared(self, connection: Any, key: int) -> Any:
        cursor = await connection.cursor(prepared=True)
        await cursor.execute("SELECT name FROM customer WHERE k = ?", (key,))
        (row,) = await cursor.fetchall()
        await cursor.close()
        return row

    async def streamed(self, connection: Any) -> list[Any]:
        cursor = await connection.cursor()
        await cursor.execute("SELECT k FROM customer ORDER BY k")
        found = [(await cursor.fetchone())[0] for _ in ROWS]
        assert await cursor.fetchone() is None
        await cursor.close()
        return found

    async def end(self, connection: Any) -> None:
        await connection.close()


class OfSqlAlchemy(Driver):
    def __init__(self, driver: str) -> None:
        self._driver = driver

    async def connect(self, wired: Wired) -> Any:
        engine = create_async_engine(wired.at.url(self._driver))
        connection = await engine.connect()
        return await connection.execution_options(isolation_level="AUTOCOMMIT")

    async def ask(self, connection: Any, sql: str, *args: object) -> Any:
        found = await connection.execute(text(sql % args if args else sql))
        return [tuple(row) for row in found]

    async def streamed(self, connection: Any) -> list[Any]:
        found = await connection.stream(text("SELECT k FROM customer ORDER BY k"))
        return [row[0] async for row in found]

    async def end(self, connection: Any) -> None:
        await connection.close()
        await connection.engine.dispose()


class OfPyMySql(Driver):
    """Blocks the thread of the loop."""

    async def connect(self, wired: Wired) -> Any:
        return pymysql.connect(**named(wired, "database"), autocommit=True, ssl_disabled=True)

    async def ask(self, connection: Any, sql: str, *args: object) -> Any:
        with connection.cursor() as cursor:
            cursor.execute(sql, args or None)
            return list(cursor.fetchall())

    async def streamed(self, connection: Any) -> list[Any]:
        with connection.cursor(pymysql.cursors.SSCursor) as cursor:
            cursor.execute("SELECT k FROM customer ORDER BY k")
            return [row[0] for row in cursor]


DRIVERS: Final = {
    "asyncmy": OfAsyncmy(),
    "aiomysql": OfAiomysql(),
    "connector": OfConnector(),
    "sqlalchemy+asyncmy": OfSqlAlchemy("asyncmy"),
    "sqlalchemy+aiomysql": OfSqlAlchemy("aiomysql"),
    "pymysql": OfPyMySql(),
}
each = pytest.mark.parametrize("driver", DRIVERS.values(), ids=list(DRIVERS))


@asynccontextmanager
async def connected(driver: Driver, wired: Wired) -> Any:
    connection = await driver.connect(wired)
    try:
        yield connection
    finally:
        await driver.end(connection)


@each
def test_it_connects_asks_and_leaves_no_session_d1(tables: RealTables, driver: Driver) -> None:
    async def script(wired: Wired) -> None:
        async with connected(driver, wired) as connection:
            wired.say(await driver.ask(connection, "SELECT name FROM customer WHERE k = %s", 3))
            wired.say(len(wired.server.clients()))
        await asyncio.sleep(0.1)
        wired.say(wired.server.clients())

    assert [what for _, _, what in play(tables, script).said] == [[("name 3",)], 1, []]


@each
def test_it_gets_an_error_of_the_server_and_goes_on_d1(tables: RealTables, driver: Driver) -> None:
    async def script(wired: Wired) -> None:
        async with connected(driver, wired) as connection:
            with pytest.raises(Exception, match="1146"):
                await driver.ask(connection, "SELECT 1 FROM nowhere")
            wired.say(await driver.ask(connection, "SELECT COUNT(*) FROM customer"))

    assert [what for _, _, what in play(tables, script).said] == [[(len(ROWS),)]]


@pytest.mark.parametrize("name", [name for name, driver in DRIVERS.items() if driver.prepared is not None])
def test_it_prepares_a_statement_d1(tables: RealTables, name: str) -> None:
    driver: Any = DRIVERS[name]

    async def script(wired: Wired) -> None:
        async with connected(driver, wired) as connection:
            for key in (2, 5):
                wired.say(await driver.prepared(connection, key))

    assert [what[0] for _, _, what in play(tables, script).said] == ["name 2", "name 5"]  # type: ignore[index]


@pytest.mark.parametrize("name", [name for name, driver in DRIVERS.items() if driver.streamed is not None])
def test_it_streams_rows_d1(tables: RealTables, name: str) -> None:
    driver: Any = DRIVERS[name]

    async def script(wired: Wired) -> None:
        async with connected(driver, wired) as connection:
            wired.say(await driver.streamed(connection))

    assert play(tables, script).said[0][2] == [row[0] for row in ROWS]


@pytest.mark.parametrize("name", [name for name in DRIVERS if name not in {"pymysql", "connector"}])
def test_the_answer_of_a_cancelled_query_reaches_nobody_d1(tables: RealTables, name: str) -> None:
    driver = DRIVERS[name]

    async def script(wired: Wired) -> None:
        connection = await driver.connect(wired)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await driver.ask(connection, "SELECT 'late', SLEEP(0.2)")
        wired.say("cancelled")
        async with connected(driver, wired) as other:
            wired.say(await driver.ask(other, "SELECT 'next'"))

    said = play(tables, script).said
    assert [what for _, _, what in said] == ["cancelled", [("next",)]]
    assert 50 <= said[0][0] <= 80, "SQLAlchemy asks some questions of its own first"


def test_the_connectors_cancelled_query_answers_the_next_one_d4(tables: RealTables) -> None:
    async def script(wired: Wired) -> None:
        connection = await DRIVERS["connector"].connect(wired)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await DRIVERS["connector"].ask(connection, "SELECT 'late', SLEEP(0.2)")
        wired.say(await DRIVERS["connector"].ask(connection, "SELECT 'next', 1"))
        with suppress(Exception):  # it may find what it does not expect
            await connection.close()

    assert play(tables, script).said[0][2] == [("late", 0)]


@pytest.mark.parametrize("pools", [asyncmy, aiomysql])
def test_a_pool_lends_no_more_than_it_has_d1(tables: RealTables, pools: Any) -> None:
    async def script(wired: Wired) -> None:
        name = "database" if pools is asyncmy else "db"
        pool = await pools.create_pool(**named(wired, name), autocommit=True, minsize=1, maxsize=2)

        async def one() -> None:
            async with pool.acquire() as connection, connection.cursor() as cursor:
                await cursor.execute("SELECT SLEEP(0.1)")

        await asyncio.gather(*[one() for _ in range(6)])
        wired.say(wired.server.at_once)
        pool.close()
        await pool.wait_closed()

    [(ms, _, at_once)] = play(tables, script).said
    assert at_once == 2
    assert 300 <= ms <= 330


# --------------------------------------------------------------------------------- locks and the clock


async def session(wired: Wired, *, autocommit: bool = False) -> Any:
    return await asyncmy.connect(**named(wired, "database"), autocommit=autocommit)


async def ask(connection: Any, sql: str, *args: object) -> Any:
    return await DRIVERS["asyncmy"].ask(connection, sql, *args)


async def locks_a_row(wired: Wired) -> None:
    with closing(await session(wired)) as connection:
        await ask(connection, "UPDATE customer SET tier = 0 WHERE k = 1")
        await asyncio.sleep(20)
        await connection.commit()


def test_a_lock_is_waited_for_by_the_virtual_clock_and_the_transaction_survives_d7(
    tables: RealTables,
) -> None:
    async def waits(wired: Wired) -> None:
        with closing(await session(wired)) as connection:
            await ask(connection, "SET innodb_lock_wait_timeout = 7")
            await ask(connection, "UPDATE customer SET tier = 9 WHERE k = 2")
            await asyncio.sleep(0.1)
            wired.say("waits")
            with pytest.raises(MySQLError, match="1205"):
                await ask(connection, "UPDATE customer SET tier = 0 WHERE k = 1")
            wired.say("gave up")
            await connection.commit()
            wired.say(await ask(connection, "SELECT tier FROM customer WHERE k = 2"))

    began_us = monotonic_us()
    (waits_ms, *_), (gave_up_ms, *_), (_, _, kept) = play(tables, locks_a_row, waits).said

    assert gave_up_ms - waits_ms in {7000, 7001, 7002}
    assert kept == [(9,)]
    assert monotonic_us() - began_us < 1_000_000, "20 virtual seconds"


def test_a_reader_that_has_written_nothing_waits_for_a_lock_too_d7(tables: RealTables) -> None:
    async def reads(wired: Wired) -> None:
        await asyncio.sleep(0.1)
        with closing(await session(wired)) as connection:
            wired.say(await ask(connection, "SELECT tier FROM customer WHERE k = 1 LOCK IN SHARE MODE"))

    [(ms, _, rows)] = play(tables, locks_a_row, reads).said
    assert rows == [(0,)]
    assert 20_000 <= ms <= 20_100


def test_a_statement_that_is_only_slow_is_not_parked_beside_one_that_waits_d3(tables: RealTables) -> None:
    async def waits(wired: Wired) -> None:
        with closing(await session(wired)) as connection:
            await asyncio.sleep(0.1)
            await ask(connection, "UPDATE customer SET tier = 1 WHERE k = 1")
            wired.say("granted")

    async def is_slow(wired: Wired) -> None:
        await asyncio.sleep(0.2)
        with closing(await session(wired)) as connection:
            # In a prepared statement SLEEP is the server's own: 0.3 s of real time.
            await (await connection.prepare("SELECT SLEEP(0.3)")).execute(())
            wired.say("was slow")

    said = play(tables, locks_a_row, waits, is_slow).said

    assert [what for _, _, what in said] == ["was slow", "granted"]
    assert said[0][0] < 250
    assert 20_000 <= said[1][0] <= 20_100


def test_a_deadlock_has_one_victim_and_the_other_goes_on_d7(tables: RealTables) -> None:
    def locks(first: int, second: int) -> Callable[[Wired], Awaitable[None]]:
        async def script(wired: Wired) -> None:
            with closing(await session(wired)) as connection:
                await ask(connection, "UPDATE customer SET tier = 0 WHERE k = %s", first)
                await asyncio.sleep(0.5)
                try:
                    await ask(connection, "UPDATE customer SET tier = 0 WHERE k = %s", second)
                except MySQLError as error:
                    wired.say(error.args[0])
                else:
                    await connection.commit()
                    wired.say("done")

        return script

    assert sorted(str(what) for _, _, what in play(tables, locks(1, 2), locks(2, 1)).said) == ["1213", "done"]


def test_an_alter_waits_for_a_reader_in_virtual_time_d7(tables: RealTables) -> None:
    async def reads(wired: Wired) -> None:
        with closing(await session(wired)) as connection:
            await ask(connection, "SELECT * FROM customer")
            await asyncio.sleep(3)
            await connection.commit()

    async def alters(wired: Wired) -> None:
        with closing(await session(wired)) as connection:
            await asyncio.sleep(0.5)
            await ask(connection, "ALTER TABLE customer ADD COLUMN more INT NULL")
            wired.say("altered")
            await ask(connection, "ALTER TABLE customer DROP COLUMN more")

    [(ms, _, _)] = play(tables, reads, alters).said
    assert 3000 <= ms <= 3020


def test_a_named_lock_is_waited_for_and_given_up_in_virtual_time_d7(tables: RealTables) -> None:
    async def holds(wired: Wired) -> None:
        with closing(await session(wired)) as connection:
            wired.say(await ask(connection, "SELECT GET_LOCK('a', 10)"))
            await asyncio.sleep(4)
            await ask(connection, "SELECT RELEASE_LOCK('a')")
            await asyncio.sleep(30)

    def wants(limit_s: int, *, keeps_s: float) -> Callable[[Wired], Awaitable[None]]:
        async def script(wired: Wired) -> None:
            await asyncio.sleep(0.5 if limit_s > 6 else 1)
            with closing(await session(wired)) as connection:
                wired.say(await ask(connection, f"SELECT GET_LOCK('a', {limit_s})"))
                await asyncio.sleep(keeps_s)

        return script

    said = play(tables, holds, wants(10, keeps_s=20), wants(6, keeps_s=0)).said

    assert [(what, round(ms, -2)) for ms, _, what in said] == [([(1,)], 0), ([(1,)], 4000), ([(0,)], 7000)]


def test_sleep_and_now_go_by_the_virtual_clock_and_columns_keep_their_names_d7(tables: RealTables) -> None:
    async def script(wired: Wired) -> None:
        with closing(await session(wired)) as connection:
            async with connection.cursor(asyncmy.cursors.DictCursor) as cursor:
                await cursor.execute("SELECT SLEEP(2.5)")
                wired.say(await cursor.fetchall())
            for _ in range(2):
                wired.say((await ask(connection, "SELECT NOW(6), CONNECTION_ID()"))[0])
                await asyncio.sleep(3600)

    said: list[Any] = play(tables, script, limit_ms=10_000_000).said
    (slept_ms, _, row), (_, _, (first, number)), (_, _, (second, _)) = said

    assert row == [{"SLEEP(2.5)": 0}]
    assert 2500 <= slept_ms <= 2520
    assert second - first in {dt.timedelta(hours=1, milliseconds=ms) for ms in range(3)}
    assert number == 1


def test_a_silent_session_is_ended_by_the_virtual_clock_d7(tables: RealTables) -> None:
    async def script(wired: Wired) -> None:
        connection = await session(wired)
        await ask(connection, "SET wait_timeout = 20")
        await asyncio.sleep(19)
        await ask(connection, "SELECT 1")
        await asyncio.sleep(21)
        with pytest.raises(MySQLError, match=r"20(06|13)"):
            await ask(connection, "SELECT 1")
        wired.say("gone")

    [(ms, _, _)] = play(tables, script).said
    assert 40_000 <= ms <= 40_100


def test_kill_takes_the_numbers_that_sessions_see_d7(tables: RealTables) -> None:
    async def victim(wired: Wired) -> None:
        connection = await session(wired)
        for error in ("1317", "1927|2013"):
            with pytest.raises(MySQLError, match=error):
                await ask(connection, "SELECT SLEEP(30)")
            wired.say(error)

    async def killer(wired: Wired) -> None:
        await asyncio.sleep(0.5)
        with closing(await session(wired)) as connection:
            (other,) = [one.number for one in wired.server.clients() if one.number != connection.thread_id()]
            await asyncio.sleep(0.5)
            await ask(connection, f"KILL QUERY {other}")
            await asyncio.sleep(1)
            await ask(connection, f"KILL {other}")

    (query_ms, *_), (session_ms, *_) = play(tables, victim, killer).said
    assert 1000 <= query_ms <= 1020
    assert 2000 <= session_ms <= 2040


def test_a_statement_whose_client_has_gone_goes_on_and_takes_effect_d7(tables: RealTables) -> None:
    async def leaves(wired: Wired) -> None:
        connection = await session(wired, autocommit=True)
        await asyncio.sleep(0.1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await ask(connection, "UPDATE customer SET tier = 77 WHERE k = 1")
        connection.close()

    async def looks(wired: Wired) -> None:
        await asyncio.sleep(30)
        with closing(await session(wired)) as connection:
            wired.say(await ask(connection, "SELECT tier FROM customer WHERE k = 1"))

    assert play(tables, locks_a_row, leaves, looks).said[-1][2] == [(77,)]


def test_nothing_of_a_session_is_seen_by_the_client_after_it_d14(tables: RealTables) -> None:
    leaves = (
        "SET @mine = 1", "SET SESSION sql_mode = ''", "SET NAMES latin1", "SET time_zone = '+05:00'",
        "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SELECT GET_LOCK('mine', 0)",
        "CREATE TEMPORARY TABLE mine (a INT)", "USE information_schema",
        "PREPARE mine FROM 'SELECT 1'", "SET autocommit = 0",
    )  # fmt: skip
    looks = (
        "SELECT @mine, @@sql_mode, @@character_set_client, @@time_zone, @@autocommit, DATABASE(),"
        " IS_USED_LOCK('mine')"
    )

    async def script(wired: Wired) -> None:
        for before in (True, False):
            with closing(await session(wired, autocommit=True)) as connection:
                wired.say(await ask(connection, looks))
                with pytest.raises(MySQLError, match="1146"):
                    await ask(connection, "SELECT * FROM mine")
                with pytest.raises(MySQLError, match="1243"):
                    await ask(connection, "EXECUTE mine")
                for statement in leaves if before else ():
                    await ask(connection, statement)
            await asyncio.sleep(0.1)

    (_, _, first), (_, _, second) = play(tables, script).said
    assert first == second


# ------------------------------------------------------------------------------------------ determinism


def contends(number: int, *, rounds: int = 8) -> Callable[[Wired], Awaitable[None]]:
    """Transactions over two of four hot rows, some of which time out or deadlock."""

    async def script(wired: Wired) -> None:
        draw = Draw(number, "contends")
        connection = await session(wired)
        for _ in range(rounds):
            first = draw.between(1, 4)
            second = first % 4 + 1
            try:
                await ask(connection, "UPDATE customer SET tier = tier + 1 WHERE k = %s", first)
                await asyncio.sleep(draw.between(1, 20) / 1000)
                await ask(connection, "UPDATE customer SET tier = tier + 1 WHERE k = %s", second)
                await connection.commit()
                wired.say("committed")
            except MySQLError as error:
                wired.say(error.args[0])
                await connection.rollback()
        connection.close()

    return script


def digest(tables: RealTables, workers: int) -> str:
    tables.fill(CALM, ROWS)
    return sha256(repr(play(tables, *map(contends, range(workers))).said).encode()).hexdigest()


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_sessions_that_contend_give_one_trace_whatever_the_hash_seed_d2(
    tables: RealTables, workers: int
) -> None:
    program = (
        "from harness.levels.sim.tests.test_real_clients import *\n"
        f"with real_tables(Opening(world='local')) as tables: print(digest(tables, {workers}))"
    )
    others = [
        subprocess.Popen(
            ["env", f"PYTHONHASHSEED={seed}", sys.executable, "-c", program],
            stdout=subprocess.PIPE, text=True,
        )
        for seed in (1, 2)
    ]  # fmt: skip
    here = digest(tables, workers)

    assert [other.communicate(timeout=100)[0].strip() for other in others] == [here, here]


def test_a_server_that_is_gone_is_an_error_of_the_environment_u4(tables: RealTables) -> None:
    async def script(wired: Wired) -> None:
        connection = await session(wired)
        for real in wired.bridge._all:
            real.close()
        await ask(connection, "SELECT 1")

    with pytest.raises(WorldError, match="the server of level sim has gone"):
        play(tables, script)


def test_a_packet_that_cannot_be_followed_ends_the_run_even_if_the_lookup_swallows_it_d10(
    tables: RealTables,
) -> None:
    async def script(wired: Wired) -> None:
        reader, writer = await asyncio.open_connection(wired.at.host, wired.at.port)
        await reader.read(1)
        with suppress(Exception):
            writer.write(b"\x01\0\0\x07?")
        writer.close()

    with pytest.raises(SutError, match="cannot follow the packets of the lookup's client"):
        play(tables, script)


def test_a_session_that_is_not_admitted_ends_the_run_even_if_the_lookup_swallows_it_u4(
    tables: RealTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> None:
        raise OSError("no more")

    async def script(wired: Wired) -> None:
        monkeypatch.setattr(bridge, "RealSession", refuses)
        wired.bridge._free.clear()
        with suppress(Exception):
            await session(wired)

    with pytest.raises(WorldError, match="admits no session: no more"):
        play(tables, script)


def test_a_table_that_a_run_left_renamed_is_made_anew_for_the_next_d14(tables: RealTables) -> None:
    with connect(tables.at(root=True)) as connection, connection.cursor() as cursor:
        cursor.execute("RENAME TABLE customer TO elsewhere")

    tables.fill(CALM, ROWS)

    async def script(wired: Wired) -> None:
        with closing(await session(wired)) as connection:
            wired.say(await ask(connection, "SELECT COUNT(*) FROM customer"))

    assert play(tables, script).said[0][2] == [(len(ROWS),)]


def test_what_has_no_rows_sleeps_once_d7(tables: RealTables) -> None:
    async def script(wired: Wired) -> None:
        with closing(await session(wired)) as connection:
            await ask(connection, "DO SLEEP(1.5)")
            wired.say("done")
            await ask(connection, "SELECT name, SLEEP(2) FROM customer WHERE k = 99")
            wired.say("no row, no sleep")

    (done_ms, *_), (none_ms, *_) = play(tables, script).said
    assert 1500 <= done_ms <= 1520
    assert none_ms - done_ms <= 3


# ------------------------------------------------------------------------------------------- what is refused


async def another_server() -> None:
    await asyncio.open_connection("example.org", 80)


async def a_unix_socket() -> None:
    await asyncio.open_unix_connection("/run/mysqld.sock")


async def a_process() -> None:
    await asyncio.create_subprocess_exec("true")


async def a_bare_socket() -> None:
    with socket.socket() as bare:
        bare.connect(("127.0.0.1", 6379))


@pytest.mark.parametrize(
    ("leaves", "what"),
    [
        (another_server, "connects to example.org:80"),
        (a_unix_socket, "connects to a Unix socket"),
        (a_process, "starts a process"),
        (a_bare_socket, r"connects a socket to \('127.0.0.1', 6379\)"),
    ],
)
def test_what_leaves_the_simulation_is_refused_with_the_line_d10(
    tables: RealTables, leaves: Callable[[], Awaitable[None]], what: str
) -> None:
    async def script(wired: Wired) -> None:
        await leaves()

    with pytest.raises(SutError, match=rf"the lookup {what}, and level sim .*test_real_clients.py:\d+"):
        play(tables, script)
