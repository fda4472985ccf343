"""The packet gate: what it does to a message depends on packets, never on how their bytes came."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.proxy.mysql.frames import framed
from harness.proxy.mysql.gate import HELD_MAX
from harness.proxy.mysql.rules import error_packet, rollback_packet
from harness.proxy.mysql.tests.scripted import GREETING, LOGGED_IN, LOGIN, OK, Exchanged, query, rows

COMMITTED = framed(OK, sequence=1)
RULES: list[tuple[str, dict[str, int | str]]] = [
    ("downstream", {"on": "query", "do": "drop"}),
    ("downstream", {"on": "query", "do": "drop", "packet": 4}),
    ("downstream", {"on": "query", "do": "drop", "packet": 3, "byte": 2}),
    ("downstream", {"on": "query", "do": "drop", "nth": 2, "then": "reset"}),
    ("downstream", {"on": "commit", "do": "reset"}),
    ("downstream", {"on": "any", "do": "close", "packet": 5, "byte": 5}),
    ("downstream", {"on": "query", "do": "error", "code": 1205}),
    ("downstream", {"on": "query", "do": "error", "code": 1205, "packet": 4}),
    ("upstream", {"on": "commit", "do": "drop"}),
    ("upstream", {"on": "commit", "do": "drop", "byte": 6}),
    ("upstream", {"on": "query", "do": "error", "code": 1290, "times": 0}),
    ("upstream", {"on": "query", "do": "error", "code": 1213}),
    ("upstream", {"on": "query", "statement": "commit", "do": "error", "code": 1053}),
    ("downstream", {"on": "handshake", "do": "error", "code": 1040}),
    ("downstream", {"on": "handshake", "do": "drop"}),
    ("upstream", {"on": "handshake", "do": "close", "byte": 9}),
    ("upstream", {"on": "any", "do": "note", "times": 0}),
    ("downstream", {"on": "any", "do": "note", "times": 0}),
]
SCRIPT = [
    (False, GREETING), (True, LOGIN), (False, LOGGED_IN), (True, query("SELECT 1")), (False, rows(3)),
    (True, query("/* a */ COMMIT")), (False, COMMITTED), (True, query("SELECT 2")), (False, rows(1)),
]  # fmt: skip


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    ends = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[low:high] for low, high in pairwise(ends) if high > low]


def played(stream: str, attributes: dict[str, int | str], places: list[int]) -> tuple[Any, ...]:
    """What both ends got, how the connection ended, and the log."""
    talk = Exchanged(logged_in=False)
    talk.toxic(stream, "t", **attributes)
    for from_client, message in SCRIPT:
        for piece in cut(message, places):
            (talk.up if from_client else talk.down)(piece)
    return talk.server.got, talk.client.got, talk.wire.endings, talk.wire.events


@pytest.mark.parametrize(("stream", "attributes"), RULES)
@settings(max_examples=12, deadline=None)
@given(places=st.lists(st.integers(0, 200), max_size=40))
def test_any_splitting_of_the_bytes_gives_the_same_acts(
    stream: str, attributes: dict[str, int | str], places: list[int]
) -> None:
    assert played(stream, attributes, places) == played(stream, attributes, [])


@settings(max_examples=20, deadline=None)
@given(places=st.lists(st.integers(0, 200), max_size=60))
def test_a_rule_that_matches_nothing_changes_nothing(places: list[int]) -> None:
    server, client, endings, log = played("downstream", {"on": "ping", "do": "drop"}, places)

    assert server == b"".join(message for from_client, message in SCRIPT if from_client)
    assert client == b"".join(message for from_client, message in SCRIPT if not from_client)
    assert endings == log == []


@given(data=st.data())
def test_broken_bytes_go_by_as_they_came(data: st.DataObject) -> None:
    talk = Exchanged(logged_in=False)
    talk.toxic("upstream", on="ping", statement="no ping has one", do="drop")
    talk.toxic("downstream", name="down", on="ping", statement="no ping has one", do="drop")
    sent = {True: b"", False: b""}

    for from_client, message in SCRIPT:
        broken = bytearray(message)
        for place, byte in data.draw(
            st.lists(st.tuples(st.integers(0, 300), st.integers(0, 255)), max_size=3)
        ):
            broken[place % len(broken)] = byte
        sent[from_client] += broken
        (talk.up if from_client else talk.down)(bytes(broken))
    talk.talk.requests.eof()
    talk.talk.replies.eof()

    assert talk.server.got == sent[True]
    assert talk.client.got == sent[False]
    assert talk.server.endings == talk.client.endings == ["eof"]


def test_without_a_toxic_the_gate_only_counts() -> None:
    talk = Exchanged()

    assert talk.talk.requests.tracking
    assert talk.talk.replies.tracking


def test_a_swallowed_reply_leaves_the_next_one_alone() -> None:
    talk = Exchanged()
    talk.toxic(on="query", do="drop")

    for n in (1, 2):
        talk.up(query(f"SELECT {n}"))
        talk.down(rows(n))

    assert talk.client.got == rows(2)
    assert [(event["did"], event.get("packets"), event.get("bytes")) for event in talk.wire.events] == [
        ("dropping", None, None),
        ("dropped", 5, len(rows(1))),
    ]


def test_a_reply_that_had_begun_is_left_alone() -> None:
    talk = Exchanged()
    talk.up(query("SELECT 1"))
    talk.down(rows(5)[:30])

    talk.toxic(on="any", do="drop")
    talk.down(rows(5)[30:])
    talk.up(query("SELECT 2"))
    talk.down(rows(1))

    assert talk.client.got == rows(5)


def test_a_reply_whose_request_came_before_the_toxic_is_known_for_what_it_answers() -> None:
    talk = Exchanged()
    talk.up(query("COMMIT"))

    talk.toxic(on="commit", do="drop")
    talk.down(COMMITTED)

    assert talk.client.got == b""


def test_requests_in_a_row_get_the_error_in_its_turn() -> None:
    talk = Exchanged()
    talk.toxic("upstream", on="query", statement="select 2", do="error", code=1205)

    talk.up(query("SELECT 1") + query("SELECT 2") + query("SELECT 3"))
    before = talk.client.got
    talk.down(rows(1))
    talk.down(rows(3))

    assert before == b""
    assert talk.server.got == query("SELECT 1") + query("SELECT 3")
    assert talk.client.got == rows(1) + error_packet(1205, sequence=1) + rows(3)


def test_a_dropped_request_is_not_waited_for() -> None:
    talk = Exchanged()
    talk.toxic("upstream", on="commit", do="drop")
    talk.toxic("downstream", name="after", on="query", statement="select", do="delay", ms=50)

    talk.up(query("COMMIT") + query("SELECT 1"))
    talk.down(rows(1))

    assert talk.client.got == b""
    talk.wire.pass_time(0.05)
    assert talk.client.got == rows(1)


def test_a_deadlocks_victim_is_rolled_back_on_the_server() -> None:
    talk = Exchanged()
    talk.toxic("upstream", on="query", statement="insert", do="error", code=1213)

    talk.up(query("INSERT INTO t VALUES (1)"))
    sent = talk.server.got
    early = talk.client.got
    talk.down(COMMITTED)

    assert sent == rollback_packet()
    assert early == b""
    assert talk.client.got == error_packet(1213, sequence=1)
    talk.up(query("SELECT 1"))
    talk.down(rows(2))
    assert talk.client.got.endswith(rows(2))


def test_held_bytes_go_on_in_order_when_the_toxic_goes() -> None:
    talk = Exchanged()
    toxic = talk.toxic(on="query", do="hold")

    talk.up(query("SELECT 1") + query("SELECT 2"))
    talk.down(rows(1) + rows(2))
    talk.talk.replies.eof()
    held = talk.talk.replies.held
    talk.wire.pass_time(2)
    talk.talk.remove(toxic)

    assert held == len(rows(1) + rows(2))
    assert talk.client.got == rows(1) + rows(2)
    assert talk.client.endings == ["eof"]
    assert talk.talk.replies.held == 0
    assert talk.talk.replies.tracking
    assert [(event["did"], event.get("ms")) for event in talk.wire.events] == [
        ("held", None),
        ("delayed", 2000),
    ]


def test_delays_run_side_by_side_and_nothing_overtakes() -> None:
    talk = Exchanged()
    talk.toxic(on="query", do="delay", ms=100, times=0)

    talk.up(query("SELECT 1") + query("SELECT 2"))
    talk.down(rows(1))
    talk.wire.pass_time(0.05)
    talk.down(rows(2))
    talk.wire.pass_time(0.05)
    first = talk.client.got
    talk.wire.pass_time(0.05)

    assert first == rows(1)
    assert talk.client.got == rows(1) + rows(2)


def test_so_much_is_held_at_most_before_the_peer_is_not_read() -> None:
    talk = Exchanged()
    talk.toxic(on="query", do="hold")

    talk.up(query("SELECT 1"))
    talk.down(
        framed(b"\x01", sequence=1) + framed(b"\x03def", sequence=2) + framed(b"\xfe\0\0\2\0", sequence=3)
    )
    talk.down(framed(bytes(HELD_MAX), sequence=4))

    assert talk.talk.replies.held >= talk.talk.replies.held_max


def test_a_direction_that_stops_inside_a_packet_is_silent_until_it_is_reset() -> None:
    talk = Exchanged()
    toxic = talk.toxic(on="query", do="drop", packet=2, byte=3)

    talk.up(query("SELECT 1"))
    talk.down(rows(1))
    talk.talk.replies.eof()
    talk.up(query("SELECT 2"))
    talk.down(rows(2))

    assert talk.client.got == rows(1)[: 5 + 3]
    assert talk.client.endings == []
    assert talk.server.got == query("SELECT 1") + query("SELECT 2")
    assert talk.wire.endings == []
    talk.talk.remove(toxic)
    assert talk.wire.endings == ["reset"]


def test_a_cut_beyond_a_packets_end_comes_at_its_end() -> None:
    talk = Exchanged()
    talk.toxic(on="query", do="close", packet=1, byte=1000)

    talk.up(query("SELECT 1"))
    talk.down(rows(1))

    assert talk.client.got == rows(1)[:5]
    assert talk.wire.endings == ["close"]


def test_too_many_connections_has_no_state_before_the_greeting_and_ends_the_connection() -> None:
    talk = Exchanged(logged_in=False)
    talk.toxic(on="handshake", do="error", code=1040)

    talk.down(GREETING)

    assert talk.client.got[:7] == framed(talk.client.got[4:], sequence=0)[:4] + b"\xff\x10\x04"
    assert b"#" not in talk.client.got
    assert talk.wire.endings == ["close"]


def test_a_lost_greeting_leaves_the_connection_open_and_silent() -> None:
    talk = Exchanged(logged_in=False)
    talk.toxic(on="handshake", do="drop")

    talk.down(GREETING)

    assert talk.client.got == b""
    assert talk.wire.endings == []
    assert [event["did"] for event in talk.wire.events] == ["dropping", "dropped"]


def test_matches_that_are_not_acted_on_are_counted_too() -> None:
    talk = Exchanged()
    talk.toxic(on="query", do="drop", nth=2, times=2)

    for n in range(1, 6):
        talk.up(query(f"SELECT {n}"))
        talk.down(rows(n))

    assert talk.client.got == rows(1) + rows(4) + rows(5)
    assert [event["match"] for event in talk.wire.did("dropped")] == [2, 3]


def test_a_message_without_the_packet_that_is_asked_for_is_not_counted() -> None:
    talk = Exchanged()
    talk.toxic(on="query", do="drop", packet=5)

    talk.up(query("SET autocommit = 0"))
    talk.down(COMMITTED)
    talk.up(query("SELECT 1"))
    talk.down(rows(2))

    dropped = len(framed(b"\x01" + b"1", sequence=5))
    assert len(talk.client.got) == len(COMMITTED + rows(2)) - dropped
    assert [(event["match"], event["bytes"]) for event in talk.wire.did("dropped")] == [(1, dropped)]


def test_of_two_toxics_the_first_acts_and_both_count() -> None:
    talk = Exchanged()
    talk.toxic(name="first", on="query", do="drop", nth=2)
    talk.toxic(name="second", on="query", do="drop", nth=2, times=2)

    for n in range(1, 5):
        talk.up(query(f"SELECT {n}"))
        talk.down(rows(n))

    assert talk.client.got == rows(1) + rows(4)
    dropped = talk.wire.did("dropped")
    assert [(event["toxic"], event["match"]) for event in dropped] == [("first", 2), ("second", 3)]


def test_commands_without_a_reply_get_no_error() -> None:
    talk = Exchanged()
    talk.toxic("upstream", on="any", do="error", code=1205)
    close = framed(b"\x19\1\0\0\0", sequence=0)

    talk.up(close)
    talk.up(query("SELECT 1"))

    assert talk.server.got == close
    assert talk.client.got == error_packet(1205, sequence=1)


def test_what_is_not_mysql_goes_by_and_is_said_once() -> None:
    talk = Exchanged(logged_in=False)
    talk.toxic(on="any", do="drop", times=0)

    talk.down(b"SSH-2.0-server\r\n")
    assert talk.client.got == b"SSH-2.0-server\r\n"
    talk.up(b"SSH-2.0-client\r\n")
    talk.down(b"anything")
    talk.talk.replies.eof()

    assert talk.client.got == b"SSH-2.0-server\r\nanything"
    assert talk.server.got == b"SSH-2.0-client\r\n"
    assert [event["did"] for event in talk.wire.events] == ["decided"]


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n", b"?"])
def test_a_client_that_speaks_first_is_not_made_to_wait(said: bytes) -> None:
    talk = Exchanged(logged_in=False)
    talk.toxic("upstream", on="any", do="drop", times=0)

    talk.up(said)

    assert talk.server.got == said
    assert [event["reason"] for event in talk.wire.events] == ["the client spoke before it was greeted"]


def test_no_event_tells_more_of_a_statement_than_its_first_word() -> None:
    talk = Exchanged()
    talk.toxic("upstream", on="query", do="drop")

    talk.up(query("SET PASSWORD = 'hush'"))

    assert "hush" not in str(talk.wire.events)
    assert talk.wire.events[0]["statement"] == "set"


def test_a_drop_whose_message_never_ends_is_logged_when_it_begins_proxy_c() -> None:
    talk = Exchanged()
    talk.toxic(on="query", statement="select", do="drop")

    talk.up(query("SELECT 1"))
    talk.down(rows(3)[:20])

    assert talk.client.got == b""
    (event,) = talk.wire.events
    assert (event["did"], event["match"], event["packet"], event["statement"]) == ("dropping", 1, 1, "select")


def synthetic(code: int) -> bytes:
    """Our error in place of the only packet of a reply."""
    return error_packet(code, sequence=1)


@given(
    places=st.lists(st.integers(0, 600), max_size=30),
    failed=st.lists(st.booleans(), min_size=1, max_size=6),
    gets=st.lists(st.integers(0, 3), min_size=6, max_size=6),
)
def test_to_a_client_that_pipelines_each_error_is_sent_in_its_place_proxy_d(
    places: list[int], failed: list[bool], gets: list[int]
) -> None:
    """The replies to the other requests come in any pieces, with errors before, between and behind them."""
    talk = Exchanged()
    talk.toxic("upstream", on="query", statement="update", do="error", code=1205, times=0)
    sent = b"".join(query("UPDATE t" if fails else "SELECT 1") for fails in failed)
    replies = [b"" if fails else rows(count) for fails, count in zip(failed, gets, strict=False)]

    for piece in cut(sent, places):
        talk.up(piece)
    for piece in cut(b"".join(replies), places):
        talk.down(piece)

    wanted = [synthetic(1205) if fails else reply for fails, reply in zip(failed, replies, strict=True)]
    assert talk.client.got == b"".join(wanted)
    assert len(talk.wire.did("error")) == sum(failed)


def test_an_error_that_ends_the_connection_ends_it_before_later_replies_proxy_d() -> None:
    talk = Exchanged()
    talk.toxic("upstream", on="query", statement="update", do="error", code=1053)

    talk.up(query("SELECT 1") + query("UPDATE t") + query("SELECT 2"))
    talk.down(rows(1) + rows(2))

    assert talk.client.got == rows(1) + synthetic(1053)
    assert talk.wire.endings == ["close"]


def test_a_rollback_in_a_pipeline_takes_only_its_own_replys_place_proxy_d() -> None:
    talk = Exchanged()
    talk.toxic("upstream", on="query", statement="update", do="error", code=1213)

    talk.up(query("SELECT 1") + query("UPDATE t") + query("SELECT 2"))
    talk.down(rows(1) + framed(OK, sequence=1) + rows(2))

    assert talk.server.got == query("SELECT 1") + rollback_packet() + query("SELECT 2")
    assert talk.client.got == rows(1) + synthetic(1213) + rows(2)


FAILED = framed(b"\xff\xbd\x04#40001Deadlock", sequence=1)


def test_a_note_logs_every_message_and_leaves_it_to_the_toxic_that_acts() -> None:
    talk = Exchanged()
    talk.toxic("upstream", "up", do="note", times=0)
    talk.toxic("downstream", "down", do="note", times=0)
    talk.toxic("upstream", "lost", on="commit", do="drop")

    talk.up(query("INSERT INTO `parts`.`rows` VALUES (1)"))
    talk.down(FAILED)
    talk.up(query("COMMIT"))
    talk.up(query("SELECT 1"))
    talk.down(rows(2))

    asked = [
        (event["toxic"], event["match"], event["statement"], event["table"])
        for event in talk.wire.did("noted")
    ]
    replies = [
        (event["reply"], event.get("code")) for event in talk.wire.did("noted") if event["toxic"] == "down"
    ]
    assert [line for line in asked if line[0] == "up"] == [
        ("up", 1, "insert", "parts.rows"),
        ("up", 2, "commit", ""),
        ("up", 3, "select", ""),
    ]
    assert replies == [("error", 1213), ("result", None)]
    assert len(talk.wire.did("dropped")) == 1
    assert talk.wire.did("noted")[0]["peer"] == 50_000


def test_a_note_tells_who_ended_the_connection_and_how_many_replies_are_missing() -> None:
    talk = Exchanged()
    talk.toxic("upstream", "up", do="note", times=0)
    talk.toxic("downstream", "down", do="note", times=0)
    talk.up(query("COMMIT"))

    talk.talk.replies.eof()
    talk.talk.requests.reset()

    assert [(event["stream"], event["left"]) for event in talk.wire.did("ended")] == [
        ("downstream", 1),
        ("upstream", 1),
    ]


def test_a_held_message_is_released_while_the_toxic_goes_on_holding() -> None:
    talk = Exchanged()
    toxic = talk.toxic("upstream", on="commit", do="hold", times=0)
    talk.up(query("COMMIT"))
    assert talk.server.got == b""

    talk.talk.release(toxic)
    first = talk.server.got
    talk.up(query("COMMIT AND CHAIN"))

    assert first == talk.server.got == query("COMMIT")
    assert [event["match"] for event in talk.wire.did("held")] == [1, 2]


@pytest.mark.parametrize("first", ["one", "other"])
def test_a_message_that_two_toxics_hold_goes_on_when_both_let_it_go(first: str) -> None:
    talk = Exchanged()
    toxics = {
        "one": talk.toxic("upstream", "one", on="write", do="hold", nth=1),
        "other": talk.toxic("upstream", "other", on="any", do="hold", nth=1),
    }
    talk.up(query("INSERT INTO a VALUES (1)"))

    talk.talk.release(toxics.pop(first))
    (last,) = toxics.values()
    still_held = talk.server.got
    talk.talk.release(last)

    assert sorted(event["toxic"] for event in talk.wire.did("held")) == ["one", "other"]
    assert still_held == b""
    assert talk.server.got == query("INSERT INTO a VALUES (1)")


def test_a_write_is_a_statement_that_may_change_rows() -> None:
    talk = Exchanged()
    talk.toxic("upstream", on="write", do="note", times=0)

    for statement in (
        "SELECT 1",
        "/* x */ insert into a values (1)",
        "UPDATE IGNORE b SET c = 1",
        "delete from d",
        "BEGIN",
    ):
        talk.up(query(statement))

    assert [(event["statement"], event["table"]) for event in talk.wire.did("noted")] == [
        ("insert", "a"),
        ("update", "b"),
        ("delete", "d"),
    ]
