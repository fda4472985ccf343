"""Claims about simulated connections: what a client of each form sees of the server, of losses and of time."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from harness.database.simulated.controls import executor_of
from harness.database.simulated.hub import Actor, Hub
from harness.database.simulated.link import SimulatedLink
from harness.database.simulated.replies import LOST_CONNECTION
from harness.database.simulated.server import SimulatedServer
from harness.database.simulated.tables import Customers, Effects, SimulatedTables
from harness.database.simulated.tape import MemoryRecorder, Tape
from harness.database.transactions import ErrorClass, class_of, code_of
from harness.levels.sim.drivers import AsyncSimulatedDriver, HarnessClient, SimulatedDriver, SimulatedError
from harness.levels.sim.subtask_loop import SubtaskLoop, outer_loop_kept
from harness.system.choices import Draw

ROWS = [[0, "Ada", "Rome", 1], [1, "Bo", "Oslo", 2]]
TOKEN = "SELECT token, origin_ms FROM fence WHERE subtask = %s"
LOCK_TOKEN = "SELECT token FROM fence WHERE subtask = %s FOR UPDATE"
RAISE = (
    "UPDATE fence SET token = token + 1, ended = 0, origin_ms = COALESCE(origin_ms, %s) WHERE subtask = %s"
)


class World:
    """A hub, a server and one link to it."""

    def __init__(self) -> None:
        self.hub = Hub(Draw(1, "test"), limit_ms=20_000, steps_max=10_000)
        self.committed: list[Effects] = []
        self.server = SimulatedServer(
            hub=self.hub,
            tables=SimulatedTables(subtasks=2, customers=Customers(ROWS)),
            on_commit=lambda _session, effects: self.committed.append(effects),
            executor=executor_of,
        )
        self.link = SimulatedLink("sink", hub=self.hub, draw=Draw(2, "test"), server=self.server)

    def run(self, *bodies: Callable[[Actor], Any]) -> list[Any]:
        """Each in an actor of its own, from the beginning to the end; what they return or raise."""
        ends: list[Any] = [None] * len(bodies)

        def body(number: int) -> Callable[[Actor], None]:
            def live(actor: Actor) -> None:
                ends[number] = bodies[number](actor)

            return live

        actors = [
            self.hub.spawn(body(number), name=str(number), ended=lambda _: None, at_ms=0)
            for number in range(len(bodies))
        ]
        with outer_loop_kept():
            assert self.hub.run() is None
        return [actor.error or end for actor, end in zip(actors, ends, strict=True)]

    def driver(self, actor: Actor) -> SimulatedDriver:
        client = HarnessClient()
        client.actor = actor
        return SimulatedDriver(self.link, client)


@pytest.fixture
def world() -> World:
    return World()


def test_a_statement_takes_virtual_time_and_gives_rows(world: World) -> None:
    def asks(actor: Actor) -> tuple[Any, int]:
        connection = world.driver(actor).connect(statement_s=5)
        began_ms = world.hub.now_ms
        with connection.cursor() as cursor:
            cursor.execute(TOKEN, (1,))
            return cursor.fetchone(), world.hub.now_ms - began_ms

    (told,) = world.run(asks)

    row, took_ms = told
    assert row == (0, None)
    assert took_ms <= 2
    assert world.hub.now_ms >= 2, "a handshake takes its time"


def test_what_was_not_committed_is_nobody_elses_and_gone_with_the_connection(world: World) -> None:
    def writes(actor: Actor) -> None:
        driver = world.driver(actor)
        connection = driver.connect(statement_s=5)
        with connection.cursor() as cursor:
            cursor.execute(RAISE, (7, 1))
        driver.hang_up(connection)

    world.run(writes)

    assert world.committed == []
    assert world.server.tables.fence.newest(1) == (0, None, 0)


def test_a_row_lock_is_waited_for_and_given_up_after_its_limit(world: World) -> None:
    def holds(actor: Actor) -> None:
        connection = world.driver(actor).connect(statement_s=5)
        with connection.cursor() as cursor:
            cursor.execute(LOCK_TOKEN, (1,))
        actor.sleep_until(10_000)
        connection.rollback()

    def waits(actor: Actor) -> tuple[int | str, int]:
        actor.sleep_until(100)
        driver = world.driver(actor)
        connection = driver.connect(statement_s=30)
        with connection.cursor() as cursor:
            cursor.execute(
                "SET SESSION wait_timeout = CAST(LEAST(@@GLOBAL.wait_timeout, 60) AS UNSIGNED),"
                " innodb_lock_wait_timeout = 2"
            )
            began_ms = world.hub.now_ms
            with pytest.raises(SimulatedError) as refused:
                cursor.execute(LOCK_TOKEN, (1,))
        waited_ms = world.hub.now_ms - began_ms
        driver.hang_up(connection)
        return code_of(refused.value), waited_ms

    _, told = world.run(holds, waits)

    code, waited_ms = told
    assert (code, class_of(code)) == (1205, ErrorClass.RETRY)
    assert 2000 <= waited_ms <= 2003


def test_an_answer_that_does_not_come_in_time_loses_the_connection(world: World) -> None:
    class Holds:
        def on_message(self, link: SimulatedLink, flight: Any) -> None:
            if not flight.is_handshake:
                link.holds(flight)

        def begins(self, link: SimulatedLink) -> None: ...
        def ends(self, link: SimulatedLink) -> None: ...
        def evidence(self) -> dict[str, Any]:
            return {}

    def asks(actor: Actor) -> tuple[int | str, int, bool]:
        connection = world.driver(actor).connect(statement_s=5)
        world.link.begin(Holds())
        began_ms = world.hub.now_ms
        with connection.cursor() as cursor, pytest.raises(SimulatedError) as lost:
            cursor.execute(TOKEN, (1,))
        return code_of(lost.value), world.hub.now_ms - began_ms, connection.open

    (told,) = world.run(asks)

    assert told == (LOST_CONNECTION, 5000, False)


def test_a_cut_is_seen_by_a_statement_under_way_and_by_the_next_one_of_an_idle_connection(
    world: World,
) -> None:
    def asks(actor: Actor) -> list[int | str]:
        driver = world.driver(actor)
        idle = driver.connect(statement_s=5)
        codes = []
        world.link.cut()
        for _ in range(2):
            with idle.cursor() as cursor, pytest.raises(SimulatedError) as lost:
                cursor.execute(TOKEN, (1,))
            codes.append(code_of(lost.value))
        return codes

    (codes,) = world.run(asks)

    assert codes == [LOST_CONNECTION, 0]
    assert world.server.sessions == {}


def test_a_killed_session_is_a_lost_connection_and_its_transaction_is_rolled_back(world: World) -> None:
    def writes(actor: Actor) -> int | str:
        connection = world.driver(actor).connect(statement_s=5)
        with connection.cursor() as cursor:
            cursor.execute(RAISE, (7, 1))
            (number,) = world.server.sessions
            world.server.kill(number)
            with pytest.raises(SimulatedError) as lost:
                cursor.execute(TOKEN, (1,))
        return code_of(lost.value)

    (code,) = world.run(writes)

    assert class_of(code) is ErrorClass.RECONNECT
    assert world.server.tables.fence.newest(1) == (0, None, 0)


def test_while_requests_are_swallowed_the_server_does_not_hear_that_a_client_has_gone(world: World) -> None:
    class Hole:
        swallows_requests = True

        def on_message(self, link: SimulatedLink, flight: Any) -> None: ...
        def begins(self, link: SimulatedLink) -> None: ...
        def ends(self, link: SimulatedLink) -> None: ...
        def evidence(self) -> dict[str, Any]:
            return {}

    def leaves(actor: Actor) -> tuple[int, int]:
        driver, hole = world.driver(actor), Hole()
        connection = driver.connect(statement_s=5)
        world.link.begin(hole)
        driver.hang_up(connection)
        stranded = len(world.server.sessions)
        world.link.heal(hole)
        return stranded, len(world.server.sessions)

    assert world.run(leaves) == [(1, 0)]


def test_an_awaited_statement_leaves_its_loop_to_others_and_a_cancelled_one_ends_its_session(
    world: World,
) -> None:
    world.server.slow_ms = 100
    told: list[Any] = []

    async def ask(driver: AsyncSimulatedDriver, key: int) -> Any:
        connection = driver.connection()
        await driver.open(connection, session="SET SESSION wait_timeout = 60")
        try:
            async with connection.cursor() as cursor:
                await cursor.execute("SELECT name FROM customer WHERE k = %s", (key,))
                return await cursor.fetchall()
        finally:
            driver.hang_up(connection)

    async def three(driver: AsyncSimulatedDriver) -> None:
        began_s = asyncio.get_running_loop().time()
        told.append(await asyncio.gather(ask(driver, 0), ask(driver, 1)))
        told.append(asyncio.get_running_loop().time() - began_s)
        third = asyncio.ensure_future(ask(driver, 0))
        await asyncio.sleep(0.05)
        third.cancel()
        await asyncio.wait([third])
        told.append(third.cancelled())

    def live(actor: Actor) -> None:
        loop = SubtaskLoop(actor, MemoryRecorder(Tape(actor.hub)))
        loop.run_until_complete(three(AsyncSimulatedDriver(world.link, loop=loop)))
        loop.wind_up()

    world.run(live)

    rows, took_s, cancelled = told
    assert rows == [[("Ada",)], [("Bo",)]]
    assert 0.1 <= took_s < 0.2, "both waited at the same time"
    assert cancelled
    assert world.server.sessions == {}


async def _asked(connection: Any, key: int) -> Any:
    async with connection.cursor() as cursor:
        await cursor.execute("SELECT name FROM customer WHERE k = %s", (key,))
        return await cursor.fetchall()


def test_a_connection_with_a_reply_on_the_way_gives_it_to_the_next_call(world: World) -> None:
    told: list[Any] = []

    async def two(driver: AsyncSimulatedDriver) -> None:
        connection = driver.connection()
        await driver.open(connection, session="SET SESSION wait_timeout = 60")
        first = asyncio.ensure_future(_asked(connection, 0))
        await asyncio.sleep(0)
        told.append(await _asked(connection, 1))
        told.append(first.done())
        first.cancel()
        await asyncio.sleep(1)
        told.append(connection.alive)

    def live(actor: Actor) -> None:
        loop = SubtaskLoop(actor, MemoryRecorder(Tape(actor.hub)))
        loop.run_until_complete(two(AsyncSimulatedDriver(world.link, loop=loop)))
        loop.wind_up()

    world.run(live)

    assert told == [[("Ada",)], False, False]
    assert world.link.flights == {}


def test_a_reply_that_nobody_read_is_the_answer_to_the_next_statement(world: World) -> None:
    told: list[Any] = []

    async def three(driver: AsyncSimulatedDriver) -> None:
        connection = driver.connection()
        await driver.open(connection, session="SET SESSION wait_timeout = 60")
        asyncio.ensure_future(_asked(connection, 0))  # noqa: RUF006 - nobody waits for it
        await asyncio.sleep(0)
        await _asked(connection, 1)
        await asyncio.sleep(1)
        told.append(await _asked(connection, 0))
        driver.hang_up(connection)

    def live(actor: Actor) -> None:
        loop = SubtaskLoop(actor, MemoryRecorder(Tape(actor.hub)))
        loop.run_until_complete(three(AsyncSimulatedDriver(world.link, loop=loop)))
        loop.wind_up()

    world.run(live)

    assert told == [[("Bo",)]]
    assert world.link.flights == {}


@pytest.mark.parametrize("stalls", [1, 40])
def test_a_killed_attempt_leaves_no_coroutine_without_an_await(world: World, stalls: int) -> None:
    """A callback that stalls the loop waits in the killed attempt, in front of a call that has not begun."""

    async def call() -> None: ...

    def live(actor: Actor) -> None:
        loop = SubtaskLoop(actor, MemoryRecorder(Tape(actor.hub)))
        try:
            for _ in range(stalls):
                loop.call_soon(loop.sleep_until, actor.hub.now_ms + 50)
            loop.create_task(call())
            actor.kill()
        finally:
            loop.wind_up()

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        world.run(live)
        gc.collect()

    assert [str(one.message) for one in warned] == []


def test_a_loop_is_closed_though_a_callback_raises_while_it_winds_up(world: World) -> None:
    """As that of an operator under test does that reports an outcome to a mailbox which is closed."""

    def reports_too_late(_task: asyncio.Future[None]) -> None:
        raise RuntimeError("the mailbox is closed")

    def winds_up(actor: Actor) -> SubtaskLoop:
        loop = SubtaskLoop(actor, MemoryRecorder(Tape(actor.hub)))
        loop.catch_up()
        loop.create_task(asyncio.sleep(1)).add_done_callback(reports_too_late)
        with pytest.raises(RuntimeError, match="the mailbox is closed"):
            loop.wind_up()
        return loop

    (loop,) = world.run(winds_up)

    assert loop.is_closed()
