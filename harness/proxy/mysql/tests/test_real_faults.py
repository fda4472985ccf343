"""What packet toxics do to real clients of a real database: by what the database holds, and by the log."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncmy
import asyncmy.errors
import pymysql
import pytest

from harness.proxy.mysql.frames import framed
from harness.proxy.mysql.tests.clients import (
    Client,
    code_of,
    connect,
    connected,
    run,
    stored,
    wait_for_sessions,
)
from harness.proxy.mysql.tests.threaded_link import ThreadedLink, threaded_link
from harness.system.clock import monotonic_us
from harness.world.world import DATABASE, World
from reference_impl.mailbox.loops import real_loop

pytestmark = pytest.mark.real

# ------------------------------------------------------------------------------------------ commits


def test_a_commit_whose_reply_is_lost_took_effect(
    world: World, link: ThreadedLink, client: Client, table: str
) -> None:
    link.packets(on="commit", do="drop")
    run(client, f"INSERT INTO {table} VALUES (1)")

    with pytest.raises(pymysql.err.OperationalError) as caught:
        client.commit()

    assert code_of(caught) == 2013
    assert stored(world, table) == [1]
    (event,) = link.log("dropped")
    assert (event["command"], event["stream"], event["packets"], event["bytes"]) == (
        "commit",
        "downstream",
        1,
        11,
    )


def test_a_commit_that_is_lost_took_no_effect(
    world: World, link: ThreadedLink, client: Client, table: str
) -> None:
    link.packets(stream="upstream", on="commit", do="drop", then="reset")
    run(client, f"INSERT INTO {table} VALUES (1)")

    with pytest.raises(pymysql.err.OperationalError) as caught:
        client.commit()

    wait_for_sessions(world, 0)
    assert code_of(caught) == 2013
    assert stored(world, table) == []
    (event,) = link.log("dropped")
    assert (event["command"], event["stream"], event["statement"]) == ("commit", "upstream", "commit")
    assert event["bytes"] == len(b"\7\0\0\0\3COMMIT")


def test_only_the_commit_that_was_asked_for_is_lost(world: World, link: ThreadedLink, table: str) -> None:
    link.packets(stream="upstream", on="commit", nth=2, do="drop", then="close")

    lost = []
    for n in range(4):
        with connected(world, link) as each:
            run(each, f"INSERT INTO {table} VALUES ({n})")
            try:
                each.commit()
            except pymysql.err.OperationalError:
                lost.append(n)

    assert lost == [1]
    assert stored(world, table) == [0, 2, 3]
    assert len(link.log("dropped")) == 1


def test_matches_are_counted_a_connection_where_that_is_asked(
    world: World, link: ThreadedLink, table: str
) -> None:
    link.packets(on="commit", per="connection", nth=2, do="drop", then="close")

    done = []
    for first in (10, 20):
        with connected(world, link) as each:
            for n in (first, first + 1):
                run(each, f"INSERT INTO {table} VALUES ({n})")
                try:
                    each.commit()
                except pymysql.err.OperationalError:
                    continue
                done.append(n)

    assert done == [10, 20]
    assert stored(world, table) == [10, 11, 20, 21]
    assert [event["match"] for event in link.log("dropped")] == [2, 2]


def test_an_error_reply_is_swallowed_whole(world: World, link: ThreadedLink, client: Client) -> None:
    link.packets(on="query", statement="select * from nowhere", do="drop")

    with pytest.raises(pymysql.err.OperationalError) as caught:
        run(client, "SELECT * FROM nowhere")

    assert code_of(caught) == 2013
    assert [event["packets"] for event in link.log("dropped")] == [1]


# ----------------------------------------------------------------------------------------- inside replies


FOUR_ROWS = "SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4"
PACKETS = 1 + 1 + 1 + 4 + 1
"""The number of columns, one of them, EOF, the rows, EOF."""


@pytest.mark.parametrize("do", ["close", "reset"])
@pytest.mark.parametrize("packet", [1, 2, 4, 6, PACKETS])
@pytest.mark.parametrize("byte", [-1, 2, 5])
def test_a_reply_is_cut_in_the_packet_that_was_asked_for(
    link: ThreadedLink, client: Client, do: str, packet: int, byte: int
) -> None:
    begun = received(link)
    run(client, FOUR_ROWS)
    whole = received(link) - begun
    lengths = [1 + 4, 0, 5 + 4, 2 + 4, 2 + 4, 2 + 4, 2 + 4, 5 + 4]
    lengths[1] = whole - sum(lengths)  # servers describe a column in different ways
    link.packets(on="query", statement="select 1", do=do, packet=packet, byte=byte)

    with pytest.raises(pymysql.err.OperationalError) as caught:
        run(client, FOUR_ROWS)

    assert code_of(caught) in {2013, 2006}
    (event,) = link.log("reset" if do == "reset" else "cut")
    assert event["packet"] == packet
    assert event["offset"] == begun + whole + sum(lengths[: packet - 1]) + max(byte, 0)


def received(link: ThreadedLink) -> int:
    (connection,) = link.connections()
    count: int = connection["downstream"]["received"]
    return count


def test_a_packet_can_be_held_while_the_ones_before_it_arrive(link: ThreadedLink, client: Client) -> None:
    link.packets(on="query", statement="select 1", do="hold", packet=6)

    link.remove_in(0.3)
    began_us = monotonic_us()
    rows = run(client, FOUR_ROWS)

    assert rows == [(1,), (2,), (3,), (4,)]
    assert monotonic_us() - began_us > 250_000
    (held,) = link.log("held")
    (released,) = link.log("delayed")
    assert (held["packet"], released["packet"]) == (6, 6)
    assert released["ms"] >= 250
    assert released["bytes"] == 6 + 6 + 9


def test_a_long_reply_that_was_held_comes_whole(link: ThreadedLink, client: Client) -> None:
    link.packets(on="query", statement="select repeat", do="hold")

    link.remove_in(0.3)
    ((text,),) = run(client, f"SELECT REPEAT('x', {5 << 20})")

    assert len(text) == 5 << 20
    (released,) = link.log("delayed")
    assert released["bytes"] < 2 << 20


def test_a_reply_is_delayed_by_what_was_asked_and_nothing_overtakes(
    link: ThreadedLink, client: Client
) -> None:
    link.packets(on="query", statement="select 1", do="delay", ms=200, times=0)

    began_us = monotonic_us()
    rows = [run(client, FOUR_ROWS) for _ in range(2)]

    took_ms = (monotonic_us() - began_us) / 1000
    assert rows == [[(1,), (2,), (3,), (4,)]] * 2
    assert took_ms >= 400
    assert [event["ms"] >= 200 for event in link.log("delayed")] == [True, True]


def test_a_reply_that_stops_inside_a_packet_ends_by_reset_when_healed(
    world: World, link: ThreadedLink, client: Client
) -> None:
    link.packets(on="query", statement="select 1", do="drop", packet=4, byte=3)

    with pytest.raises(pymysql.err.OperationalError):
        run(client, FOUR_ROWS)
    with connected(world, link) as another:
        assert run(another, "SELECT 7") == [(7,)]
    link.remove()

    assert [(event["packet"], event["did"]) for event in link.log()] == [(4, "cut")]
    wait_for_sessions(world, 0)


# ------------------------------------------------------------------------------------------ handshake


def test_a_greeting_that_is_held_stalls_the_login_until_it_is_released(
    world: World, link: ThreadedLink
) -> None:
    link.packets(on="handshake", do="hold")

    with pytest.raises(pymysql.err.OperationalError):
        connect(world, link, read_timeout=0.3)

    link.remove_in(0.2)
    with connected(world, link) as client:
        assert run(client, "SELECT 1") == [(1,)]
    assert {event["command"] for event in link.log("held")} == {"handshake"}


def test_a_login_is_cut_inside_the_greeting(world: World, link: ThreadedLink) -> None:
    link.packets(on="handshake", do="reset", packet=1, byte=10)

    with pytest.raises(pymysql.err.OperationalError) as caught:
        connect(world, link)

    assert code_of(caught) in {2003, 2013}
    assert [(event["packet"], event["offset"]) for event in link.log("reset")] == [(1, 10)]
    with connected(world, link) as client:
        assert run(client, "SELECT 1") == [(1,)]


def test_a_slow_greeting_arrives_byte_for_byte(world: World, link: ThreadedLink) -> None:
    """Slow loris: the packet gate counts packets, whatever the slicer makes of them."""
    link.toxic("slicer", average_size=1, delay=500)
    link.packets(on="commit", do="drop")

    with connected(world, link, read_timeout=60) as client:
        assert run(client, "SELECT 1") == [(1,)]


# ---------------------------------------------------------------------------------------------- errors


KEEPS_SESSION = (1205, 1213, 1290)


@pytest.mark.parametrize("code", KEEPS_SESSION)
@pytest.mark.parametrize("stream", ["upstream", "downstream"])
def test_after_a_statements_error_the_session_goes_on(
    world: World, link: ThreadedLink, client: Client, table: str, code: int, stream: str
) -> None:
    run(client, f"INSERT INTO {table} VALUES (1)")
    client.commit()
    run(client, f"INSERT INTO {table} VALUES (2)")
    link.packets(stream=stream, on="query", statement="insert", do="error", code=code)

    with pytest.raises(pymysql.err.MySQLError, match=r"\(synthetic, floodmark\)") as caught:
        run(client, f"INSERT INTO {table} VALUES (3)")
    found = [n for (n,) in run(client, f"SELECT n FROM {table} ORDER BY n")]

    assert code_of(caught) == code
    reached = [1, 2, 3] if stream == "downstream" else [1] if code == 1213 else [1, 2]
    assert found == reached
    (event,) = link.log("error")
    assert (event["code"], event["command"], event["statement"]) == (code, "query", "insert")


def test_a_deadlocks_victim_has_been_rolled_back(
    world: World, link: ThreadedLink, client: Client, table: str
) -> None:
    link.packets(stream="upstream", on="commit", do="error", code=1213)
    run(client, f"INSERT INTO {table} VALUES (1)")

    with pytest.raises(pymysql.err.OperationalError) as caught:
        client.commit()
    run(client, f"INSERT INTO {table} VALUES (2)")
    client.commit()

    assert code_of(caught) == 1213
    assert stored(world, table) == [2]


@pytest.mark.parametrize("code", [1040, 1053])
def test_errors_after_which_servers_hang_up_end_the_session(
    world: World, link: ThreadedLink, client: Client, code: int
) -> None:
    link.packets(stream="upstream", on="query", statement="select", do="error", code=code)

    with pytest.raises(pymysql.err.MySQLError) as caught:
        run(client, "SELECT 1")
    with pytest.raises(pymysql.err.MySQLError) as after:
        run(client, "SELECT 1")

    assert code_of(caught) == code
    assert code_of(after) in {2013, 2006}
    wait_for_sessions(world, 0)


def test_too_many_connections_comes_before_the_greeting(world: World, link: ThreadedLink) -> None:
    link.packets(on="handshake", do="error", code=1040)

    with pytest.raises(pymysql.err.OperationalError, match="Too many connections") as caught:
        connect(world, link)

    assert code_of(caught) == 1040
    assert [(event["packet"], event["offset"]) for event in link.log("error")] == [(1, 0)]
    wait_for_sessions(world, 0)
    with connected(world, link) as client:
        assert run(client, "SELECT 1") == [(1,)]


def test_a_login_can_be_refused_after_the_greeting(world: World, link: ThreadedLink) -> None:
    link.packets("reply", on="handshake", do="error", code=1040, packet=2)

    with pytest.raises(pymysql.err.OperationalError, match="Too many connections") as caught:
        connect(world, link)

    assert code_of(caught) == 1040
    link.remove("reply")
    link.packets("request", stream="upstream", on="handshake", do="error", code=1053)
    with pytest.raises(pymysql.err.MySQLError) as refused:
        connect(world, link)
    assert code_of(refused) == 1053
    wait_for_sessions(world, 0)


@pytest.mark.parametrize("code", [1040, 1053, 1205, 1213, 1290])
def test_asyncmy_sees_each_error(world: World, link: ThreadedLink, code: int) -> None:
    async def lookup() -> tuple[Any, Any]:
        client = await asyncmy.connect(
            host="127.0.0.1", port=link.port, user=world.app.user, password=world.app.password, db=DATABASE,
            read_timeout=60,
        )  # fmt: skip
        seen: list[Any] = []
        async with client.cursor() as cursor:
            for _ in range(2):
                try:
                    await cursor.execute("SELECT 5")
                    seen.append(await cursor.fetchone())
                except asyncmy.errors.MySQLError as error:
                    seen.append(error.args[0])
        client.close()
        return seen[0], seen[1]

    link.packets(stream="upstream", on="query", statement="select 5", do="error", code=code)
    with real_loop() as loop:
        first, second = loop.run_until_complete(asyncio.wait_for(lookup(), 60))

    assert first == code
    assert second in ({2006, 2013} if code in {1040, 1053} else {(5,)})


# ------------------------------------------------------------------------------------- what is not understood


def test_a_link_that_was_told_of_mysql_too_late_acts_on_new_connections(world: World) -> None:
    with threaded_link(world.direct, mysql=False) as link, connected(world, link) as before:
        link.packets(on="query", statement="select 9", do="drop", times=0)
        with connected(world, link, read_timeout=3) as after:
            with pytest.raises(pymysql.err.OperationalError):
                run(after, "SELECT 9")
            assert run(before, "SELECT 9") == [(9,)]


def test_a_toxic_added_to_a_live_connection_acts_on_its_next_message(
    link: ThreadedLink, client: Client
) -> None:
    for n in range(50):
        assert run(client, f"SELECT {n}") == [(n,)]
    link.packets(on="query", do="error", code=1205, nth=3)

    seen = []
    for n in range(5):
        try:
            seen += run(client, f"SELECT {n}")
        except pymysql.err.OperationalError as error:
            seen.append(error.args[0])

    assert seen == [(0,), (1,), 1205, (3,), (4,)]


@pytest.mark.parametrize("code", [1205, 1290])
def test_a_client_that_pipelines_gets_each_error_and_each_reply_for_its_own_request_proxy_d(
    world: World, link: ThreadedLink, client: Client, table: str, code: int
) -> None:
    link.packets(stream="upstream", on="query", statement="delete", do="error", code=code, times=0)
    asked = [
        f"INSERT INTO {table} VALUES (1)",
        f"DELETE FROM {table}",
        "SELECT 7",
        f"DELETE FROM {table}",
        f"DELETE FROM {table}",
        "COMMIT",
    ]
    private: Any = client
    private._sock.sendall(b"".join(framed(b"\x03" + sql.encode(), sequence=0) for sql in asked))

    answers: list[Any] = []
    for _ in asked:
        private._next_seq_id = 1
        try:
            private._read_query_result()
            answers.append(private._result.rows or private._result.affected_rows)
        except pymysql.err.MySQLError as error:
            answers.append(error.args[0])

    assert answers == [1, code, ((7,),), code, code, 0]
    assert stored(world, table) == [1]
