"""A world as its users meet it, of either kind: real, behind its links, on loopback, secrets kept."""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pymysql
import pytest

from harness.faults.real.fault_site import ToxicRequest
from harness.system.clock import Deadline, monotonic_us, wait_until
from harness.system.errors import WorldError
from harness.world.server import ask, open_connection
from harness.world.toxiproxy import Toxiproxy
from harness.world.world import DATABASE, LINKS, World

pytestmark = pytest.mark.real

SLOW = ToxicRequest(name="slow", type="latency", stream="downstream", attributes={"latency": 120})


def took_ms(world: World, link: str) -> float:
    """How long one query takes over a link, on a connection that is open already."""
    with closing(open_connection(world.links[link], world.app)) as connection, connection.cursor() as cursor:
        begun_us = monotonic_us()
        cursor.execute("SELECT 1")
        return (monotonic_us() - begun_us) / 1000


def test_it_says_what_it_is(world: World) -> None:
    described = world.description

    assert described.kind in described.why
    assert described.server.startswith(("MySQL ", "MariaDB "))
    assert described.proxy.startswith("own proxy " if world.proxy.own else "Toxiproxy 2.")
    assert ("our own proxy" in described.why) == world.proxy.own
    assert described.ready_s > 0


def test_the_user_is_answered_directly_and_through_every_link(world: World) -> None:
    for address in [world.direct, *world.links.values()]:
        assert ask(address, world.app, "SELECT CURRENT_USER(), DATABASE()") == [
            (f"{world.app.user}@%", DATABASE)
        ]


def test_the_user_may_make_databases_of_ours_and_reach_no_other(world: World) -> None:
    ask(world.direct, world.app, f"CREATE DATABASE {DATABASE}_mine", f"DROP DATABASE {DATABASE}_mine")

    with pytest.raises(pymysql.err.OperationalError, match="denied"):
        ask(world.direct, world.app, "SELECT * FROM mysql.user")


def test_root_may_do_anything_over_tcp(world: World) -> None:
    ask(world.direct, world.root, "CREATE DATABASE other", "DROP DATABASE other", database=None)

    assert ask(world.direct, world.root, "SELECT COUNT(*) > 0 FROM mysql.user") == [(1,)]


def test_an_acknowledged_commit_is_durable(world: World) -> None:
    assert ask(world.direct, world.root, "SELECT @@innodb_flush_log_at_trx_commit") == [(1,)]


def test_latency_delays_its_link_alone_and_only_while_it_is_there(world: World) -> None:
    world.proxy.add_toxic("lookups", SLOW)
    assert list(world.proxy.toxics("lookups")) == ["slow"]

    assert took_ms(world, "lookups") >= 120
    assert wait_until(lambda: took_ms(world, "sink") < 120, deadline=Deadline(60))
    world.proxy.remove_toxic("lookups", "slow")
    assert wait_until(lambda: took_ms(world, "lookups") < 120, deadline=Deadline(60))
    assert list(world.proxy.toxics("lookups")) == []


def test_removing_a_toxic_twice_is_no_error(world: World) -> None:
    world.proxy.add_toxic("sink", SLOW)

    world.proxy.remove_toxic("sink", "slow")
    world.proxy.remove_toxic("sink", "slow")

    assert list(world.proxy.toxics("sink")) == []


def test_a_closed_link_cuts_and_refuses_and_opens_on_the_same_port(world: World) -> None:
    address = world.links["lookups"]
    with closing(open_connection(address, world.app)) as connection:
        world.proxy.disable("lookups")
        with pytest.raises(pymysql.err.OperationalError):
            connection.ping(reconnect=False)
    assert not world.proxy.enabled("lookups")
    with pytest.raises((pymysql.err.OperationalError, OSError)):
        ask(address, world.app, "SELECT 1")

    world.proxy.enable("lookups")

    assert world.proxy.enabled("lookups")
    assert ask(address, world.app, "SELECT 1") == [(1,)]


def test_the_proxy_says_what_it_did_and_cuts_live_connections(world: World) -> None:
    """Our own keeps a log and can reset; the world says what another proxy cannot."""
    assert world.proxy.own == ("packets" not in world.lacks)
    if not world.proxy.own:
        assert world.proxy.link_log("sink") is None
        with pytest.raises(WorldError, match="--proxy own"):
            world.proxy.cut("sink", "rst")
        return
    with closing(open_connection(world.links["sink"], world.app)) as connection:
        assert world.proxy.cut("sink", "rst")
        with pytest.raises(pymysql.err.OperationalError):
            connection.ping(reconnect=False)
    read = world.proxy.link_log("sink")

    assert read is not None
    assert [event.did for event in read.events][-1:] == ["reset"]


def test_a_link_opens_and_closes_many_times_on_its_port(world: World) -> None:
    for _ in range(20):
        world.proxy.disable("sink")
        world.proxy.enable("sink")

    assert ask(world.links["sink"], world.app, "SELECT 1") == [(1,)]


def test_every_port_of_it_listens_on_loopback_alone(world: World) -> None:
    assert isinstance(world.proxy, Toxiproxy)
    ours = {world.direct.port, world.proxy.control.port, *(world.links[link].port for link in LINKS)}
    listening = [
        tuple(connection.laddr)
        for connection in psutil.net_connections(kind="tcp")
        if connection.status == psutil.CONN_LISTEN
    ]

    assert {(host, port) for host, port in listening if port in ours} == {
        ("127.0.0.1", port) for port in ours
    }


def test_no_password_stands_on_a_command_line_or_in_a_file_of_the_run(world: World) -> None:
    secrets = [world.app.password, world.root.password]
    commands = [" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]
    files = [path for path in world.folder.iterdir() if path.is_file()]
    texts = [*commands, *(path.read_text(errors="replace") for path in files)]

    assert not [text for text in texts if any(secret in text for secret in secrets)]
    assert not any(secret in repr(world) for secret in secrets)


def test_a_hung_toxiproxy_is_healed(world: World) -> None:
    """Taking a latency toxic away while clients behind it do not read hangs the real server for ever."""
    ask(
        world.direct,
        world.root,
        f"CREATE TABLE {DATABASE}.big (body LONGBLOB)",
        f"INSERT INTO {DATABASE}.big VALUES (REPEAT('x', 8000000))",
    )
    world.proxy.add_toxic("lookups", SLOW)
    deaf = [deaf_client(world) for _ in range(3)]
    assert wait_until(lambda: all(backlog(client) > 0 for client in deaf), deadline=Deadline(60))

    world.proxy.remove_toxic("lookups", "slow")

    assert list(world.proxy.toxics("lookups")) == []
    assert ask(world.links["lookups"], world.app, "SELECT 1") == [(1,)]
    for client in deaf:
        client.close()
    ask(world.direct, world.root, f"DROP TABLE {DATABASE}.big")


def deaf_client(world: World) -> socket.socket:
    """A client's socket that has asked for a lot over `lookups` and never reads."""
    connection: Any = open_connection(world.links["lookups"], world.app)  # its insides are untyped
    raw: socket.socket = connection._sock
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection._execute_command(3, f"SELECT body, body, body, body FROM {DATABASE}.big")
    connection._rfile.close()
    connection._sock = None
    return raw


def backlog(client: socket.socket) -> int:
    """How much has arrived and was not read, at least 1 if anything."""
    try:
        return len(client.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except BlockingIOError:
        return 0


def test_its_folder_is_there_and_private(world: World) -> None:
    assert world.folder.is_dir()
    assert Path(world.folder).stat().st_mode & 0o077 == 0
