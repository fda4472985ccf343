"""Statements are known by what a server would execute."""

from __future__ import annotations

import pytest

from harness.proxy.mysql.commands import (
    EXECUTE,
    PING,
    PREPARE,
    QUERY,
    CommandExchange,
    MessageKind,
    changed_tables,
    plain,
    statements_of,
)
from harness.proxy.mysql.dialogue import counted, without_attributes
from tools.cases import each


@each(
    "text",
    [
        b"COMMIT",
        b"commit",
        b" \t\r\n Commit",
        b"/* trace=7 */ COMMIT",
        b"-- a remark\nCOMMIT",
        b"--\nCOMMIT",
        b"# a remark\n# another\n/**/COMMIT WORK",
        b"/*!40000 COMMIT */",
        b"/*M!100100 COMMIT */",
        b"COMMIT/* done */",
        b"COMMIT;",
        b"XA COMMIT 'a','b'",
        b"xa\n  commit 'a' ONE PHASE",
    ],
)
def test_a_commit_is_known_whatever_stands_before_it(text: bytes) -> None:
    exchange = CommandExchange(command=QUERY, text=text)

    assert exchange.kinds() == (MessageKind.COMMIT, MessageKind.QUERY)


@each(
    "text",
    [
        b"SELECT 'COMMIT'",
        b"/* COMMIT */ SELECT 1",
        b"COMMITTED",
        b"-- COMMIT",
        b"--COMMIT",
        b"/* never closed COMMIT",
        b"",
        b"XA PREPARE 'a'",
    ],
)
def test_what_only_looks_like_a_commit_is_a_query(text: bytes) -> None:
    assert CommandExchange(command=QUERY, text=text).kinds() == (MessageKind.QUERY,)


def test_going_back_to_a_savepoint_is_no_rollback() -> None:
    kinds = {
        text: CommandExchange(command=QUERY, text=text).kinds()[0]
        for text in (b"ROLLBACK", b"rollback  to s")
    }

    assert kinds == {b"ROLLBACK": MessageKind.ROLLBACK, b"rollback  to s": MessageKind.QUERY}


def test_a_write_in_autocommit_commits_and_a_read_does_not() -> None:
    write, read = (
        CommandExchange(command=QUERY, text=text, in_autocommit=True) for text in (b"DELETE FROM t", b"DO 1")
    )

    assert write.kinds() == (MessageKind.QUERY, MessageKind.WRITE, MessageKind.COMMIT)
    assert read.kinds() == (MessageKind.QUERY,)


def test_a_prepared_commit_counts_when_it_is_executed() -> None:
    assert CommandExchange(command=EXECUTE, text=b"COMMIT").kinds() == (
        MessageKind.COMMIT,
        MessageKind.EXECUTE,
    )
    assert CommandExchange(command=PREPARE, text=b"COMMIT").kinds() == (MessageKind.PREPARE,)
    assert CommandExchange(command=PING).kinds() == (MessageKind.PING,)
    assert CommandExchange(command=0x02).kinds() == (MessageKind.OTHER,)


def test_a_statement_in_plain_form_has_small_letters_and_single_blanks() -> None:
    assert plain(b"/* x */\n INSERT  INTO\t`T`\nVALUES (1)") == "insert into `t` values (1)"


def test_only_a_statements_first_word_is_told() -> None:
    exchange = CommandExchange(command=QUERY, text=b"/* k */ ALTER USER u IDENTIFIED BY 'secret'")

    assert exchange.first_word() == "alter"


def test_many_comments_are_read_in_no_time() -> None:
    assert plain(b"/**/ " * 20_000 + b"COMMIT") == "commit"
    assert plain(b"/*! " * 20_000 + b"COMMIT") == "commit"


ATTRIBUTED = (
    b"\x03\x01"  # three attributes, one set
    b"\x02"  # the second is NULL
    b"\x01"  # types follow
    b"\x08\x00\x01n" + b"\x0f\x00\x04none" + b"\xfd\x00\x03tag"
    + (7).to_bytes(8, "little") + b"\x05hello"
)  # fmt: skip


def test_a_statement_is_found_behind_the_querys_attributes() -> None:
    assert without_attributes(b"\x00\x01SELECT 1") == b"SELECT 1"
    assert without_attributes(ATTRIBUTED + b"COMMIT") == b"COMMIT"


@each("cut", range(len(ATTRIBUTED)))
def test_attributes_that_are_cut_off_give_no_statement(cut: int) -> None:
    assert without_attributes(ATTRIBUTED[:cut]) == b""


def test_a_number_says_its_own_length() -> None:
    assert counted(b"\xfa", 0) == (250, 1)
    assert counted(b"\xfc\x01\x02", 0) == (513, 3)
    assert counted(b"\xfd\x01\x02\x03", 0) == (197_121, 4)
    assert counted(b"\xfe" + (1 << 40).to_bytes(8, "little"), 0) == (1 << 40, 9)
    with pytest.raises(IndexError):
        counted(b"\xfc\x01", 0)


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        (b"INSERT INTO enriched (id) VALUES (1), (2)", "enriched"),
        (b"insert ignore `Enriched`(id) values (1)", "enriched"),
        (b"INSERT INTO`parts`.`enriched`VALUES (1)", "parts.enriched"),
        (b"INSERT /* trace=7 */ INTO parts . enriched VALUES (1)", "parts.enriched"),
        (b"INSERT INTO enriched VALUES (1) ON DUPLICATE KEY UPDATE id = 2", "enriched"),
        (b"INSERT INTO enriched SELECT * FROM staging", "enriched"),
        (b'REPLACE LOW_PRIORITY INTO "enriched" VALUES (1)', "enriched"),
        (b"LOAD DATA LOCAL INFILE 'a.csv' REPLACE INTO TABLE enriched (id)", "enriched"),
        (b"/* app */ -- why\nUPDATE LOW_PRIORITY enriched AS e SET id = 1", "enriched"),
        (b"UPDATE enriched SET id = 1", "enriched"),
        (b"UPDATE offsets o JOIN enriched e ON o.id = e.id SET o.pos = 1", "?"),
        (b"UPDATE offsets, enriched SET pos = 1", "?"),
        (b"DELETE QUICK FROM enriched WHERE id IN (SELECT 1)", "enriched"),
        (b"DELETE enriched, offsets FROM enriched JOIN offsets", "?"),
        (b"DELETE FROM enriched, offsets USING enriched JOIN offsets", "?"),
        (b"TRUNCATE enriched", "enriched"),
        (b"CALL write_rows(1)", "?"),
        (b"EXECUTE stmt USING @a", "?"),
        (b"WITH a AS (SELECT 1) DELETE FROM enriched", "?"),
        (b"WITH a AS (SELECT 1) SELECT * FROM a", ""),
        (b"CREATE TABLE enriched (id INT)", ""),
        (
            b"INSERT INTO enriched VALUES ('a; DELETE FROM b', 'it''s'); UPDATE offsets SET pos = 1;",
            "enriched,offsets",
        ),
        (b"INSERT INTO enriched VALUES ('cut; off", "enriched"),
    ],
)
def test_the_table_that_a_statement_changes_is_read_from_its_text(text: bytes, tables: str) -> None:
    assert ",".join(changed_tables(text)) == tables


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        (b"SELECT 1", 1),
        (b"SELECT 1;", 1),
        (b"; ;SELECT 1; -- ; no more", 1),
        (b"BEGIN; INSERT INTO t VALUES ('a;b', \"c;\", 'd\\';'); COMMIT", 3),
        (b"INSERT INTO `a;b` VALUES (1 - 2 / 3); /* it's ; */ COMMIT # don't ;", 2),
        (b"DELETE FROM t; -- it's\nCOMMIT", 2),
        (
            b"DROP TRIGGER x; CREATE TRIGGER x AFTER INSERT ON t FOR EACH ROW BEGIN DELETE FROM a; DELETE FROM b; END",
            2,
        ),
        (b"BEGIN NOT ATOMIC DELETE FROM a; COMMIT; END", 1),
    ],
)
def test_a_query_is_split_where_a_statement_ends(text: bytes, statements: int) -> None:
    assert len(statements_of(text)) == statements
