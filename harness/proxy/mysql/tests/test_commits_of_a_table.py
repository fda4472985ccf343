"""A rule for a table counts its writes, and the COMMITs of transactions that have changed rows of it; no others."""

from __future__ import annotations

import pytest

from harness.proxy.mysql.frames import framed
from harness.proxy.mysql.tests.scripted import Exchanged, query, rows

IN_TRANSACTION, AUTOCOMMIT = 1, 2
FAILED, DEADLOCK = framed(b"\xff\x28\x04#23000Dup", sequence=1), framed(b"\xff\xbd\x04#40001Dead", sequence=1)


def ok(changed: int = 0, status: int = 0) -> bytes:
    """An OK that counts changed rows; `status`: is a transaction open, does each statement commit itself."""
    return framed(bytes([0, changed, 0]) + status.to_bytes(2, "little") + b"\0\0", sequence=1)


WROTE, OPEN, ENDED = ok(1, IN_TRANSACTION), ok(0, IN_TRANSACTION), ok(0)
ROWS, OFFSET = "INSERT INTO enriched VALUES (1)", "UPDATE offsets SET pos = 1"
COMMIT = ("COMMIT", ENDED)


def counted(script: list[tuple[str, bytes]], table: str = "enriched") -> list[str]:
    """What a rule for commits of `table` matches of a conversation without autocommit: each match and its tables."""
    talk = Exchanged()
    talk.up(query("SET autocommit = 0"))
    talk.down(ENDED)
    talk.toxic("upstream", "t", on="commit", table=table, do="note", times=0)
    for sql, reply in script:
        talk.up(query(sql))
        talk.down(reply)
    return [f"{event['match']} {event['tables']}" for event in talk.wire.did("noted")]


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ([(ROWS, WROTE), COMMIT, (OFFSET, WROTE), COMMIT], ["1 enriched"]),
        ([(OFFSET, WROTE), COMMIT, (ROWS, WROTE), COMMIT], ["1 enriched"]),
        ([(ROWS, WROTE), (OFFSET, WROTE), COMMIT], ["1 enriched,offsets"]),
        ([("SELECT * FROM enriched", rows(2)), COMMIT], []),
        ([("UPDATE enriched SET k = 1", OPEN), COMMIT], []),  # it changed no row
        ([(ROWS, FAILED), (OFFSET, WROTE), COMMIT], []),
        ([(ROWS, WROTE), ("ROLLBACK", ENDED), (OFFSET, WROTE), COMMIT], []),
        ([(ROWS, WROTE), (OFFSET, DEADLOCK), (OFFSET, WROTE), COMMIT], []),
        (
            [(ROWS, WROTE), ("START TRANSACTION", OPEN), (OFFSET, WROTE), COMMIT],
            [],
        ),  # it commits what is open
        ([(ROWS, WROTE), ("CREATE TABLE t (a INT)", ENDED), (OFFSET, WROTE), COMMIT], []),
        ([("CALL write_rows(1)", OPEN), COMMIT], ["1 ?"]),
        ([(ROWS + " RETURNING id", rows(1)), COMMIT], ["1 enriched"]),
        ([(ROWS, WROTE), ("COMMIT AND CHAIN", OPEN), (OFFSET, WROTE), COMMIT], ["1 enriched"]),
    ],
)
def test_a_commit_counts_if_its_transaction_has_changed_rows_of_the_table(
    script: list[tuple[str, bytes]], found: list[str]
) -> None:
    assert counted(script) == found


def test_without_a_name_every_commit_counts_that_changes_any_table() -> None:
    script = [("SELECT 1", rows(1)), COMMIT, (OFFSET, WROTE), COMMIT, (ROWS, WROTE), COMMIT]

    assert counted(script, "*") == ["1 offsets", "2 enriched"]


def test_in_autocommit_a_write_to_the_table_counts_and_the_next_transaction_knows_nothing_of_it() -> None:
    script = [
        ("SET autocommit = 1", ok(0, AUTOCOMMIT)),
        (OFFSET, ok(1, AUTOCOMMIT)),
        (ROWS, ok(1, AUTOCOMMIT)),
        ("BEGIN", ok(0, AUTOCOMMIT | IN_TRANSACTION)),
        (OFFSET, ok(1, AUTOCOMMIT | IN_TRANSACTION)),
        ("COMMIT", ok(0, AUTOCOMMIT)),
    ]

    assert counted(script) == ["1 enriched"]


def test_a_client_that_does_not_wait_for_answers_is_counted_by_what_it_has_sent() -> None:
    talk = Exchanged()
    talk.toxic("upstream", "t", on="commit", table="enriched", do="note", times=0)
    talk.up(query("BEGIN"))
    talk.down(OPEN)

    for sql in (ROWS, "COMMIT"):
        talk.up(query(sql))

    assert [event["tables"] for event in talk.wire.did("noted")] == ["enriched"]


def test_a_prepared_write_is_of_the_table_in_the_text_that_was_prepared() -> None:
    talk = Exchanged()
    talk.toxic("upstream", "t", on="commit", table="enriched", do="note", times=0)
    for number, sql in ((1, OFFSET), (2, ROWS)):
        talk.up(framed(b"\x16" + sql.encode(), sequence=0))
        talk.down(framed(b"\0" + number.to_bytes(4, "little") + bytes(7), sequence=1))
    talk.up(query("BEGIN"))
    talk.down(OPEN)

    for number in (1, 2):
        talk.up(framed(b"\x17" + number.to_bytes(4, "little") + bytes(5), sequence=0))
        talk.down(WROTE)
        talk.up(query("COMMIT"))
        talk.down(ENDED)
        talk.up(query("BEGIN"))
        talk.down(OPEN)

    assert [event["tables"] for event in talk.wire.did("noted")] == ["enriched"]


def test_a_write_counts_if_it_names_the_table() -> None:
    talk = Exchanged()
    talk.toxic("upstream", "t", on="write", table="Enriched", do="note", times=0)

    for sql in (
        OFFSET,
        ROWS,
        "REPLACE INTO `parts`.`enriched` VALUES (1)",
        "INSERT INTO enriched_old VALUES (1)",
    ):
        talk.up(query(sql))

    assert [event["statement"] for event in talk.wire.did("noted")] == ["insert", "replace"]


MORE = 8
SEVERAL_ON = framed(b"\x1b\0\0", sequence=0)
"""COM_SET_OPTION: a query may hold several statements."""


def several(*sql: str) -> Exchanged:
    """A conversation in autocommit, in which these queries of several statements are counted; all write one row."""
    talk = Exchanged()
    talk.up(SEVERAL_ON)
    talk.down(framed(b"\xfe\0\0\2\0", sequence=1))
    talk.up(query("SET autocommit = 1"))
    talk.down(ok(0, AUTOCOMMIT))
    for on in ("commit", "write"):
        talk.toxic("upstream", on, on=on, table="enriched", do="note", times=0)
    for one in sql:
        talk.up(query(one))
        count = one.count(";") + 1
        for number in range(count):
            status = AUTOCOMMIT | (MORE if number + 1 < count else 0)
            talk.down(framed(bytes([0, 1, 0]) + status.to_bytes(2, "little") + b"\0\0", sequence=number + 1))
    return talk


def last_matches(talk: Exchanged) -> list[str]:
    return [f"{event['toxic']} {event['match']} of {event['tables']}" for event in talk.wire.did("noted")]


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        (
            [f"BEGIN; {ROWS}; {OFFSET}; COMMIT"],
            ["commit 1 of enriched,offsets", "write 1 of enriched,offsets"],
        ),
        ([f"{OFFSET}; {ROWS}"], ["commit 1 of offsets,enriched", "write 1 of offsets,enriched"]),
        (
            [f"BEGIN; {ROWS}; COMMIT; BEGIN; {OFFSET}; COMMIT"],
            ["commit 1 of enriched,offsets", "write 1 of enriched,offsets"],
        ),
        ([f"BEGIN; {OFFSET}; COMMIT"], []),
        ([f"BEGIN; {ROWS}; ROLLBACK; {OFFSET}"], ["write 1 of enriched,offsets"]),
        ([f"SET autocommit = 0; {ROWS}; {OFFSET}"], ["write 1 of enriched,offsets"]),
        ([f"SELECT 1; {ROWS}"], ["commit 1 of enriched", "write 1 of enriched"]),
    ],
)
def test_each_statement_of_a_query_counts_by_itself(sql: list[str], found: list[str]) -> None:
    assert last_matches(several(*sql)) == found


def test_two_commits_in_one_query_are_two_and_a_moment_between_them_is_that_query() -> None:
    twice = f"BEGIN; {ROWS}; COMMIT; BEGIN; {ROWS}; COMMIT"
    talk = several(twice)
    talk.toxic("upstream", "second", on="commit", table="enriched", do="note", nth=2, times=1)
    talk.up(query(twice))

    notes = talk.wire.did("noted")
    assert [(event["toxic"], event["match"]) for event in notes][2:] == [
        ("commit", 3),
        ("write", 3),
        ("second", 2),
    ]
    assert (notes[-1]["writes"], notes[-1]["commits"]) == (2, 2)
    assert notes[-1]["statement"] == "begin; insert; commit; begin; insert; commit"


def test_what_a_query_leaves_open_is_of_the_commit_that_comes_later() -> None:
    talk = several()
    talk.up(query(f"BEGIN; {OFFSET}; COMMIT; BEGIN; {ROWS}"))
    for number, status in enumerate((1, 1, 0, 1)):
        talk.down(framed(bytes([0, 1, 0, status | AUTOCOMMIT | MORE, 0, 0, 0]), sequence=number + 1))
    talk.down(framed(bytes([0, 1, 0, IN_TRANSACTION | AUTOCOMMIT, 0, 0, 0]), sequence=5))
    talk.up(query("COMMIT"))

    assert last_matches(talk)[-1] == "commit 1 of enriched"


def test_a_reply_to_several_statements_counts_as_held_when_the_last_one_is_carried_out() -> None:
    talk = several()
    talk.toxic("downstream", "h", on="commit", table="enriched", do="hold", times=1)
    talk.up(query(f"BEGIN; {ROWS}; COMMIT"))
    for number in range(2):
        talk.down(framed(bytes([0, 1, 0, IN_TRANSACTION | AUTOCOMMIT | MORE, 0, 0, 0]), sequence=number + 1))
        assert not talk.wire.did("held")
    talk.down(framed(bytes([0, 0, 0, AUTOCOMMIT, 0, 0, 0]), sequence=3))

    [held] = talk.wire.did("held")
    assert held["statement"] == "begin; insert; commit"


def test_a_commit_at_the_end_of_a_long_query_is_seen_where_a_query_may_hold_several() -> None:
    long = "; ".join([ROWS] * 1000)

    assert last_matches(several(f"BEGIN; {long}; COMMIT"))[0] == "commit 1 of enriched"
