"""The server of a world as faults treat it: ended, started, stopped, and asked past the proxy, over and over."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pymysql
import pytest

from harness.system.clock import Deadline, wait_until
from harness.system.errors import WorldError
from harness.tests.real_world import require_world
from harness.world.mysql_server import no_small_disk
from harness.world.server import ask, open_connection
from harness.world.settings import WorldSettings
from harness.world.setup.opening import open_world
from harness.world.world import DATABASE, World

pytestmark = pytest.mark.real

FULL = 1114


def answers(world: World) -> bool:
    return ask(world.links["sink"], world.app, "SELECT 1") == [(1,)]


@pytest.mark.parametrize("end", ["kill", "shut_down"])
def test_a_server_that_was_ended_starts_on_the_same_port_with_the_same_data(world: World, end: str) -> None:
    before = world.server.state()
    ask(world.direct, world.app, "CREATE TABLE kept (n INT)", "INSERT INTO kept VALUES (7)")

    getattr(world.server, end)()
    gone = world.server.state()
    world.server.start()

    assert gone.start is None
    assert gone.uptime_s is None
    assert world.server.state().start not in {None, before.start}
    assert ask(world.links["lookups"], world.app, "SELECT n FROM kept") == [(7,)]
    ask(world.direct, world.app, "DROP TABLE kept")


def test_a_server_that_is_down_refuses_directly_and_ends_connections_through_the_proxy(world: World) -> None:
    world.server.kill()

    with pytest.raises((pymysql.err.OperationalError, OSError)):
        ask(world.direct, world.app, "SELECT 1")
    with pytest.raises((pymysql.err.OperationalError, OSError)):
        ask(world.links["sink"], world.app, "SELECT 1")

    world.server.start()
    assert answers(world)


def test_a_paused_server_keeps_its_connections_and_answers_nobody(world: World) -> None:
    with closing(open_connection(world.links["sink"], world.app, limit_s=3)) as asker:
        world.server.pause()
        paused = world.server.state()
        with pytest.raises(pymysql.err.OperationalError), asker.cursor() as cursor:
            cursor.execute("SELECT 1")

    world.server.resume()

    assert paused.paused
    assert paused.uptime_s is None
    assert paused.start == world.server.state().start
    assert not world.server.state().paused
    assert answers(world)


@pytest.mark.parametrize("end", ["kill", "shut_down"])
def test_a_paused_server_can_be_ended_and_comes_back_awake(world: World, end: str) -> None:
    world.server.pause()

    getattr(world.server, end)()
    world.server.resume()
    world.server.start()

    assert not world.server.state().paused
    assert answers(world)


def test_every_act_may_be_repeated(world: World) -> None:
    before = world.server.state()

    for act in (world.server.start, world.server.resume, world.server.pause, world.server.pause):
        act()
    world.server.resume()
    assert world.server.state().start == before.start
    for act in (world.server.kill, world.server.kill, world.server.pause, world.server.resume):
        act()
    assert world.server.state().start is None
    for act in (world.server.start, world.server.start):
        act()

    assert answers(world)


def change_and_note(world: World, end: Callable[[], None], undone: list[int]) -> None:
    """End the server while something is to be put back in it."""
    end()

    def act(connection: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT DATABASE()")
            undone.append(cursor.fetchone()[0])

    world.server.of_run(DATABASE).put_back(act)


def test_what_is_to_be_put_back_waits_for_a_server_that_is_down(world: World) -> None:
    undone: list[Any] = []

    change_and_note(world, world.server.kill, undone)
    assert undone == []
    world.server.start()

    assert undone == [DATABASE]


def test_what_is_to_be_put_back_waits_for_a_server_that_is_paused(world: World) -> None:
    undone: list[Any] = []

    change_and_note(world, world.server.pause, undone)
    assert undone == []
    world.server.resume()

    assert undone == [DATABASE]


def test_what_is_to_be_put_back_is_put_back_at_once_in_a_server_that_runs(world: World) -> None:
    undone: list[Any] = []

    change_and_note(world, lambda: None, undone)

    assert undone == [DATABASE]


def test_its_counters_are_numbers_and_none_where_nobody_answers(world: World) -> None:
    running = world.server.counters()
    world.server.kill()
    down = world.server.counters()
    world.server.start()

    assert running["Uptime"] >= 0
    assert "Innodb_row_lock_waits" in running
    assert down == {}


def test_it_says_which_abilities_it_has_not_and_who_has(world: World) -> None:
    local, mariadb = world.description.kind == "local", world.server.flavour == "mariadb"

    assert ("offline-mode" in world.lacks) == mariadb
    assert "server-process" not in world.lacks
    if not local:
        assert "--world local" in world.lacks["server-clock"]


@pytest.mark.parametrize("kind", ["local", "containers"])
def test_a_small_disk_is_full_to_the_last_byte_survives_a_kill_and_is_emptied(kind: str) -> None:
    require_world(kind, "own", settings=WorldSettings.from_environment())
    if kind == "local" and no_small_disk():
        pytest.skip(no_small_disk())
    needs = frozenset({"small-disk"})
    with open_world(kind, announce=print, offline=True, proxy="own", needs=needs) as world:
        ask(world.direct, world.app, "CREATE TABLE rows_of (body LONGTEXT)")
        assert world.server.fill_disk() > 0

        with pytest.raises(pymysql.MySQLError) as refused:
            write_rows(world, 1000)
        world.server.kill()
        world.server.free_disk()
        world.server.start()

        assert refused.value.args[0] == FULL
        write_rows(world, 10)


def write_rows(world: World, count: int) -> None:
    for _ in range(count):
        ask(world.direct, world.app, "INSERT INTO rows_of VALUES (REPEAT('x', 5000))")


def test_a_server_that_ended_without_us_is_an_error_with_its_last_words() -> None:
    require_world("local", "own", settings=WorldSettings.from_environment())
    with open_world("local", announce=print, offline=True, proxy="own") as world:
        pid = world.server.state().pid
        assert pid is not None

        os.kill(pid, signal.SIGKILL)

        with pytest.raises(WorldError, match="no fault of this run ended it") as told:
            wait_until(lambda: world.server.state().start is None, deadline=Deadline(60))
        assert "last lines of" in told.value.what
