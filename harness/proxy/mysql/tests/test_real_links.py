"""Links to a real database that go half-open, are reset, refuse or stall: by the sessions that the server counts."""

from __future__ import annotations

import pymysql
import pytest

from harness.proxy.link import Cutting
from harness.proxy.mysql.tests.clients import (
    Client,
    code_of,
    connect,
    connected,
    run,
    sessions,
    stored,
    wait_for_sessions,
)
from harness.proxy.mysql.tests.threaded_link import ThreadedLink
from harness.system.clock import Deadline, monotonic_us, wait_until
from harness.world.world import World

pytestmark = pytest.mark.real


def test_a_link_silent_downstream_still_delivers_statements(
    world: World, link: ThreadedLink, client: Client, table: str
) -> None:
    run(client, "SET autocommit = 1")
    link.toxic("half_open", "downstream")

    with pytest.raises(pymysql.err.OperationalError) as caught:
        run(client, f"INSERT INTO {table} VALUES (1)")

    assert code_of(caught) == 2013
    assert stored(world, table) == [1]
    swallowed = link.log("swallowed")
    assert {event["stream"] for event in swallowed} == {"downstream"}
    assert sum(event["bytes"] for event in swallowed) > 0


def test_a_link_silent_upstream_leaves_the_session_and_its_locks_on_the_server(
    world: World, link: ThreadedLink, client: Client, table: str
) -> None:
    run(client, f"INSERT INTO {table} VALUES (1)")
    link.toxic("half_open", "upstream")

    with pytest.raises(pymysql.err.OperationalError):
        client.commit()
    client.close()

    assert sessions(world) == 1
    assert stored(world, table) == []
    with world.server.root() as root:
        run(root, "SET innodb_lock_wait_timeout = 1")
        with pytest.raises(pymysql.err.OperationalError) as blocked:
            run(root, f"INSERT INTO {table} VALUES (1)")
    assert code_of(blocked) == 1205
    link.remove("half_open")
    wait_for_sessions(world, 0)
    assert stored(world, table) == []


def test_live_connections_are_reset_at_once_and_new_ones_served(
    world: World, link: ThreadedLink, client: Client
) -> None:
    with connected(world, link) as other:
        cut = link.cut(Cutting.RST)

        for each in (client, other):
            with pytest.raises(pymysql.err.Error):
                run(each, "SELECT 1")

    wait_for_sessions(world, 0)
    assert len(cut) == 2
    assert {event["connection"] for event in link.log("reset")} == {*cut}
    with connected(world, link) as another:
        assert run(another, "SELECT 1") == [(1,)]


def test_a_connection_whose_answer_is_held_can_be_reset(
    world: World, link: ThreadedLink, client: Client
) -> None:
    link.packets(on="query", do="hold")
    client._execute_command(3, b"SELECT 1")  # type: ignore[attr-defined] # sent, and its answer not waited for
    link.wait_for_event("held")

    link.cut(Cutting.RST)

    with pytest.raises(pymysql.err.Error):
        client._read_packet()  # type: ignore[no-untyped-call]
    wait_for_sessions(world, 0)


def test_new_connections_are_refused_while_live_ones_go_on(
    world: World, link: ThreadedLink, client: Client
) -> None:
    link.toxic("refuse")

    with pytest.raises(pymysql.err.OperationalError) as caught:
        connect(world, link)

    assert code_of(caught) == 2003
    assert run(client, "SELECT 1") == [(1,)]
    link.remove("refuse")
    with connected(world, link) as another:
        assert run(another, "SELECT 1") == [(1,)]


def test_a_stalled_connection_reaches_no_server_until_it_goes_on(world: World, link: ThreadedLink) -> None:
    link.toxic("stall")

    link.remove_in(0.4, "stall")
    began_us = monotonic_us()
    with connected(world, link, read_timeout=60) as client:
        waited_us = monotonic_us() - began_us
        assert run(client, "SELECT 1") == [(1,)]

    assert waited_us > 300_000
    assert wait_until(lambda: sessions(world) == 0, deadline=Deadline(60))
    assert [event["did"] for event in link.log()] == ["stalled"]
