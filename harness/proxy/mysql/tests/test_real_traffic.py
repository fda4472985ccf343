"""What real clients and servers say is understood, packet for packet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import asyncmy
import pymysql
import pytest
from pymysql.constants import CLIENT, COMMAND

from harness.proxy.mysql.commands import (
    ANSWERLESS,
    CHANGE_USER,
    EXECUTE,
    HANDSHAKE,
    PING,
    PREPARE,
    QUERY,
    QUIT,
    MessageKind,
)
from harness.proxy.mysql.dialogue import DEPRECATE_EOF
from harness.proxy.mysql.frames import framed
from harness.proxy.mysql.tests.recording import Recording, listen_in, understood
from harness.world.world import DATABASE, World
from reference_impl.mailbox.loops import real_loop

pytestmark = pytest.mark.real

HUGE = (1 << 24) + 100
"""More than one frame holds."""


def connect(world: World, recording: Recording, **options: Any) -> Any:
    """Any: the tests reach below its public methods."""
    return pymysql.connect(
        host="127.0.0.1",
        port=recording.port,
        user=world.app.user,
        password=world.app.password,
        database=DATABASE,
        connect_timeout=60,
        **{"ssl_disabled": True, "read_timeout": 20, **options},
    )


def heard(recording: Recording, size: int = 65_536) -> list[tuple[int, str]]:
    """Command and first word of each exchange; all of them have ended, and no byte is left over."""
    exchanges, dialogue = understood(recording.chunks, size=size)
    assert dialogue.session.why_lost == ""
    assert dialogue.requests.at_boundary
    assert dialogue.replies.at_boundary
    assert not dialogue.session.open
    assert all(each.ended for each in exchanges if each.exchange.command not in ANSWERLESS)
    return [(each.exchange.command, each.exchange.first_word()) for each in exchanges]


def test_a_pymysql_session_is_understood(world: World) -> None:
    with listen_in(world.direct) as recording, connect(world, recording) as client, client.cursor() as cursor:
        cursor.execute("/* hello */ SELECT 1 UNION SELECT 2")
        assert cursor.fetchall() == ((1,), (2,))
        cursor.execute("SELECT 1 WHERE FALSE")
        cursor.execute("DO 1")
        with pytest.raises(pymysql.err.ProgrammingError):
            cursor.execute("SELECT * FROM nowhere")
        client.ping(reconnect=False)
        client.select_db(DATABASE)
        client.commit()

    commands = heard(recording)
    assert commands[0] == (HANDSHAKE, "")
    assert commands[-8:] == [
        (QUERY, "select"), (QUERY, "select"), (QUERY, "do"), (QUERY, "select"),
        (PING, ""), (2, ""), (QUERY, "commit"), (QUIT, ""),
    ]  # fmt: skip
    assert heard(recording, size=1) == commands


@pytest.mark.parametrize("flags", [0, CLIENT.FOUND_ROWS])
def test_a_write_that_the_server_commits_by_itself_is_a_commit_and_one_in_a_transaction_is_none(
    world: World, flags: int
) -> None:
    said = [
        "CREATE TEMPORARY TABLE t (i INT) ENGINE=InnoDB", "SET autocommit = 1", "INSERT INTO t VALUES (1)",
        "SELECT * FROM t", "UPDATE t SET i = 2", "BEGIN", "DELETE FROM t", "ROLLBACK", "REPLACE INTO t VALUES (3)",
        "SET autocommit = 0", "INSERT INTO t VALUES (4)", "COMMIT", "INSERT INTO t VALUES (5)",
    ]  # fmt: skip
    with (
        listen_in(world.direct) as recording,
        connect(world, recording, client_flag=flags, init_command="SET @a = 1") as client,
        client.cursor() as cursor,
    ):
        for statement in said:
            cursor.execute(statement)

    for size in (65_536, 1):
        exchanges, _ = understood(recording.chunks, size=size)
        commits = [
            each.exchange.statement() for each in exchanges if MessageKind.COMMIT in each.exchange.kinds()
        ]
        assert commits == [
            "insert into t values (1)",
            "update t set i = 2",
            "replace into t values (3)",
            "commit",
        ]


def test_an_asyncmy_session_is_understood(world: World) -> None:
    async def talk(port: int) -> tuple[tuple[Any, ...], ...]:
        client = await asyncmy.connect(
            host="127.0.0.1", port=port, user=world.app.user, password=world.app.password, db=DATABASE
        )
        async with client.cursor() as cursor:
            await cursor.execute("SELECT 'a', NULL, 3 UNION ALL SELECT 'b', 'c', 4")
            rows = await cursor.fetchall()
        await client.ping()
        await client.rollback()
        await client.ensure_closed()
        return tuple(rows)

    with listen_in(world.direct) as recording, real_loop() as loop:
        rows = loop.run_until_complete(talk(recording.port))

    assert rows == (("a", None, 3), ("b", "c", 4))
    commands = heard(recording)
    assert commands[0] == (HANDSHAKE, "")
    assert commands[-4:] == [(QUERY, "select"), (PING, ""), (QUERY, "rollback"), (QUIT, "")]
    assert heard(recording, size=1) == commands


def test_several_results_of_one_statement_are_one_reply(world: World) -> None:
    options = {"client_flag": CLIENT.MULTI_STATEMENTS}
    with (
        listen_in(world.direct) as recording,
        connect(world, recording, **options) as client,
        client.cursor() as cursor,
    ):
        cursor.execute("SELECT 1; DO 2; SELECT 3 UNION SELECT 4; SELECT * FROM nowhere; SELECT 5")
        results = [list(cursor.fetchall())]
        while True:
            try:
                if not cursor.nextset():
                    break
            except pymysql.err.ProgrammingError:
                break
            results.append(list(cursor.fetchall()))
        cursor.execute("DO 6")

    assert results == [[(1,)], [], [(3,), (4,)]]
    assert heard(recording)[-3:] == [(QUERY, "select; do; select"), (QUERY, "do"), (QUIT, "")]


def test_a_row_and_a_statement_longer_than_a_frame_are_one_packet_each(world: World) -> None:
    with listen_in(world.direct) as recording, connect(world, recording) as client, client.cursor() as cursor:
        cursor.execute("SELECT @@max_allowed_packet")
        (allowed,) = cursor.fetchone()
        if allowed <= HUGE:
            pytest.skip(f"the server takes {allowed} bytes at most")
        cursor.execute("SELECT LENGTH(%s)", ("x" * HUGE,))
        assert cursor.fetchone() == (HUGE,)
        cursor.execute("SELECT REPEAT('y', %s), 7", (HUGE,))
        text, seven = cursor.fetchone()

    assert (len(text), seven) == (HUGE, 7)
    exchanges, _ = understood(recording.chunks)
    assert heard(recording)[-3:] == [(QUERY, "select"), (QUERY, "select"), (QUIT, "")]
    assert [each.exchange.requests for each in exchanges[-3:]] == [1, 1, 1]
    assert [each.exchange.replies for each in exchanges[-3:-1]] == [5, 6]  # count, columns, EOF, row, EOF


def test_a_local_file_belongs_to_its_statement(world: World, tmp_path: Path) -> None:
    table = f"`{DATABASE}_infile`"
    rows = tmp_path / "rows.csv"
    rows.write_text("".join(f"{n}\n" for n in range(20_000)))
    with world.server.root() as root, root.cursor() as cursor:
        cursor.execute("SET GLOBAL local_infile = 1")
    try:
        with (
            listen_in(world.direct) as recording,
            connect(world, recording, local_infile=True) as client,
            client.cursor() as cursor,
        ):
            cursor.execute(f"CREATE DATABASE {table}")
            cursor.execute(f"CREATE TABLE {table}.t (n INT)")
            cursor.execute(f"LOAD DATA LOCAL INFILE '{rows}' INTO TABLE {table}.t")
            cursor.execute(f"SELECT COUNT(*) FROM {table}.t")
            assert cursor.fetchone() == (20_000,)
            cursor.execute(f"DROP DATABASE {table}")
    finally:
        with world.server.root() as root, root.cursor() as cursor:
            cursor.execute("SET GLOBAL local_infile = DEFAULT")

    loading = [each for each in understood(recording.chunks)[0] if each.exchange.first_word() == "load"]
    assert (QUERY, "load") in heard(recording)
    assert [each.exchange.requests > 2 for each in loading] == [True]


def ask(client: Any, command: int, payload: bytes, *, packets: int = 1) -> bytes:
    """A command that PyMySQL has no method for, or a reply it cannot read; answers with the first packet."""
    client._execute_command(command, payload)
    replies: list[bytes] = [client._read_packet().get_all_data() for _ in range(packets)]
    return replies[0]


ONE_ROUND = b"\x01\x00\x00\x00"
A_NULL = b"\x01" + b"\x01" + b"\x06\x00"


@pytest.mark.parametrize("flag", [0, DEPRECATE_EOF], ids=["with old EOF packets", "without"])
def test_prepared_statements_are_known_by_their_text(world: World, flag: int) -> None:
    eof = 0 if flag else 1
    with listen_in(world.direct) as recording, connect(world, recording, client_flag=flag) as client:
        prepared = ask(
            client, COMMAND.COM_STMT_PREPARE, b"/* p */ SELECT ?, 2", packets=1 + 1 + eof + 2 + eof
        )
        first = prepared[1:5]
        ask(
            client,
            COMMAND.COM_STMT_EXECUTE,
            first + b"\x00" + ONE_ROUND + A_NULL,
            packets=1 + 2 + eof + 1 + 1,
        )
        client._execute_command(COMMAND.COM_STMT_CLOSE, first)
        number = ask(client, COMMAND.COM_STMT_PREPARE, b"COMMIT")[1:5]
        ask(client, COMMAND.COM_STMT_EXECUTE, number + b"\x00" + ONE_ROUND)

    assert heard(recording)[-6:] == [
        (PREPARE, "select"), (EXECUTE, "select"), (COMMAND.COM_STMT_CLOSE, ""),
        (PREPARE, "commit"), (EXECUTE, "commit"), (QUIT, ""),
    ]  # fmt: skip
    assert heard(recording, size=1) == heard(recording)


@pytest.mark.parametrize("flag", [0, DEPRECATE_EOF], ids=["with old EOF packets", "without"])
def test_a_cursors_rows_come_with_each_fetch(world: World, flag: int) -> None:
    eof, read_only = 0 if flag else 1, b"\x01"
    with listen_in(world.direct) as recording, connect(world, recording, client_flag=flag) as client:
        three = b"SELECT 1 UNION SELECT 2 UNION SELECT 3"
        number = ask(client, COMMAND.COM_STMT_PREPARE, three, packets=1 + 1 + eof)[1:5]
        ask(client, COMMAND.COM_STMT_EXECUTE, number + read_only + ONE_ROUND, packets=1 + 1 + 1)
        ask(client, COMMAND.COM_STMT_FETCH, number + b"\x02\x00\x00\x00", packets=2 + 1)
        ask(client, COMMAND.COM_STMT_FETCH, number + b"\x02\x00\x00\x00", packets=1 + 1)

    fetch = (COMMAND.COM_STMT_FETCH, "")
    assert heard(recording)[-5:] == [(PREPARE, "select"), (EXECUTE, "select"), fetch, fetch, (QUIT, "")]


def test_results_without_old_eof_packets_are_understood(world: World) -> None:
    flags = DEPRECATE_EOF | CLIENT.MULTI_STATEMENTS
    with listen_in(world.direct) as recording, connect(world, recording, client_flag=flags) as client:
        ask(client, COMMAND.COM_QUERY, b"SELECT 1, 2 UNION SELECT 3, 4", packets=1 + 2 + 2 + 1)
        two = b"SELECT 1; SELECT 1 WHERE FALSE; DO 1"
        ask(client, COMMAND.COM_QUERY, two, packets=(1 + 1 + 1 + 1) + (1 + 1 + 1) + 1)
        ask(client, COMMAND.COM_PING, b"")

    assert heard(recording)[-4:] == [(QUERY, "select"), (QUERY, "select; do"), (PING, ""), (QUIT, "")]
    assert heard(recording, size=1) == heard(recording)


def test_requests_sent_in_a_row_get_their_own_replies(world: World) -> None:
    with listen_in(world.direct) as recording, connect(world, recording) as client:
        asked = (b"\x03SELECT 1", b"\x0e", b"\x03COMMIT")
        client._write_bytes(b"".join(framed(payload, sequence=0) for payload in asked))
        for packets in (5, 1, 1):
            client._next_seq_id = 1
            for _ in range(packets):
                client._read_packet()

    exchanges, _ = understood(recording.chunks)
    assert [each.exchange.replies for each in exchanges[-4:-1]] == [5, 1, 1]
    assert heard(recording)[-4:] == [(QUERY, "select"), (PING, ""), (QUERY, "commit"), (QUIT, "")]


def test_a_change_of_user_is_understood(world: World) -> None:
    with listen_in(world.direct) as recording, connect(world, recording) as client:
        words = (
            world.app.user.encode(),
            b"\x04none" + DATABASE.encode(),
            b"\x21\x00mysql_clear_password",
            b"\0",
        )
        client._execute_command(COMMAND.COM_CHANGE_USER, b"\0".join(words))
        packet = client._read_packet()
        assert packet.is_auth_switch_request()
        packet.read_uint8()
        client._process_auth(packet.read_string(), packet)
        with client.cursor() as cursor:
            cursor.execute("SELECT 7")
            assert cursor.fetchone() == (7,)

    assert heard(recording)[-3:] == [(CHANGE_USER, ""), (QUERY, "select"), (QUIT, "")]


def test_a_first_login_of_a_user_is_understood_in_full(world: World) -> None:
    """MySQL's default exchange asks for the server's key where the password is not cached."""
    with world.server.root() as root, root.cursor() as cursor:
        cursor.execute("CREATE USER 'fresh'@'%' IDENTIFIED BY 'word'")
        cursor.execute("FLUSH PRIVILEGES")
    try:
        with listen_in(world.direct) as recording:
            client = pymysql.connect(
                host="127.0.0.1", port=recording.port, user="fresh", password="word", ssl_disabled=True
            )
            client.close()
    finally:
        with world.server.root() as root, root.cursor() as cursor:
            cursor.execute("DROP USER 'fresh'@'%'")

    exchanges, _ = understood(recording.chunks)
    login = exchanges[0].exchange
    assert (login.requests, login.replies) == ((3, 4) if world.server.flavour == "mysql" else (1, 2))
    assert heard(recording)[-1] == (QUIT, "")


def test_tls_is_said_and_goes_by(world: World) -> None:
    with listen_in(world.direct) as recording:
        try:
            client = connect(world, recording, ssl_disabled=False, ssl={"check_hostname": False})
        except pymysql.err.OperationalError:
            pytest.skip("this server has no TLS")
        with client, client.cursor() as cursor:
            cursor.execute("SELECT 1")

    _, dialogue = understood(recording.chunks)
    assert dialogue.session.why_lost == "the client asked for TLS"


def test_compression_is_said_and_goes_by(world: World) -> None:
    """PyMySQL does not compress; it may ask for it, and then be silent."""
    with listen_in(world.direct) as recording:
        client = connect(world, recording, client_flag=CLIENT.COMPRESS, defer_connect=True, read_timeout=3)
        with pytest.raises(pymysql.err.Error):
            client.connect()

    _, dialogue = understood(recording.chunks)
    assert dialogue.session.why_lost == "client and server agreed on compression"
