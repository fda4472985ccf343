"""The audit: SQL that counts what is wrong in rows that were written by hand (V8, V9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pymysql
import pytest

from harness.database.audit import EpochRow, count_rows, read_progress, read_table, reading
from harness.database.endpoint import Endpoint, connect
from harness.database.schema import prepare_database, run_database
from harness.database.stored_tables import StoredRow
from harness.database.tests.conftest import ROWS, RunDatabase
from harness.system.errors import WorldError

pytestmark = pytest.mark.real

SOUND = [(0, 0, 0), (1, 1, 0), (0, 2, 0), (0, 2, 1), (1, 3, 0), (0, 4, 0)]
"""(subtask, id, j) in the order of the database; ids ascend in each subtask, record 2 has two outputs."""


def written(database: RunDatabase, rows: Sequence[tuple[int, int, int]]) -> None:
    database.execute(
        "INSERT INTO output (subtask, id, j, v, epoch, token) VALUES (%s, %s, %s, 'null', 1, 1)", list(rows)
    )


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        pytest.param(SOUND, {}, id="sound"),
        pytest.param([], {"records": 0}, id="empty"),
        pytest.param(SOUND[:-1], {"records": 4}, id="one missing"),
        pytest.param([*SOUND, (0, 4, 0)], {"doubled": 1}, id="one doubled"),
        pytest.param([*SOUND, (0, 4, 0), (0, 4, 0)], {"doubled": 1}, id="one tripled counts once"),
        pytest.param([*SOUND, (0, 0, 0)], {"doubled": 1, "disordered": 1}, id="one again, and late"),
        pytest.param([*SOUND[1:], SOUND[0]], {"disordered": 1}, id="one late"),
        pytest.param([*SOUND[2:], *SOUND[:2]], {"disordered": 2}, id="one of each subtask late"),
    ],
)
def test_what_is_wrong_is_counted(database: RunDatabase, rows: Sequence[Any], wrong: dict[str, int]) -> None:
    written(database, rows)

    with reading(database.root) as tables:
        counts = count_rows(tables, ordered=True)

    expected = {"doubled": 0, "disordered": 0, "records": 5, **wrong}
    assert {name: counts[name] for name in expected} == expected
    assert counts["rows"] == len(rows)


def test_order_is_not_counted_where_none_was_promised(database: RunDatabase) -> None:
    written(database, [*SOUND[1:], SOUND[0]])

    with reading(database.root) as tables:
        assert "disordered" not in count_rows(tables, ordered=False)


def test_a_table_that_is_gone_has_no_counts_and_the_others_do(database: RunDatabase) -> None:
    written(database, SOUND)
    database.execute("RENAME TABLE output TO hidden", [()])

    with reading(database.root) as tables:
        assert count_rows(tables, ordered=True) == {"epochs": 0, "dead_letters": 0}


def test_a_large_table_is_read_in_batches_and_the_count_is_the_databases_own(database: RunDatabase) -> None:
    """More rows than one batch, and a row that is taken away does not change the count of those that stay."""
    written(database, [(0, number, 0) for number in range(2_100)])
    database.execute("DELETE FROM output WHERE id = %s", [(7,)])
    rows: list[StoredRow] = []

    with reading(database.root) as tables:
        counted = read_table(tables, "output", rows.append)

    assert counted == len(rows) == 2_099
    assert [row.id for row in rows] == [number for number in range(2_100) if number != 7]


def test_rows_come_in_the_order_of_the_database_with_their_epochs(database: RunDatabase) -> None:
    written(database, SOUND)
    database.execute("INSERT INTO epoch VALUES (%s, %s, %s, 0, '[]')", [(1, 1, 4), (0, 2, 3), (0, 1, 3)])

    rows: list[StoredRow] = []
    with reading(database.root) as tables:
        counted = read_table(tables, "audit", rows.append)
        progress, counts = read_progress(tables), count_rows(tables, ordered=True)

    assert counted == len(SOUND)
    assert [(row.subtask, row.id, row.j) for row in rows] == SOUND
    assert [row.seq for row in rows] == sorted(row.seq for row in rows)
    assert progress.epochs == (
        EpochRow(subtask=0, epoch=1, token=3),
        EpochRow(subtask=0, epoch=2, token=3),
        EpochRow(subtask=1, epoch=1, token=4),
    )
    assert counts["epochs"] == 3


def test_a_connection_that_was_lost_is_opened_again_by_the_next_question(database: RunDatabase) -> None:
    written(database, SOUND)
    rows: list[StoredRow] = []

    with reading(database.root) as tables:
        tables.opened().close()
        counted = read_table(tables, "output", rows.append)

    assert counted == len(rows) == len(SOUND)


def test_the_looked_up_table_holds_the_rows_and_every_subtask_has_a_fence(database: RunDatabase) -> None:
    assert [list(row) for row in database.rows("SELECT k, name, city, tier FROM customer ORDER BY k")] == ROWS
    assert database.rows("SELECT subtask, token, origin_ms FROM fence ORDER BY subtask") == [
        (0, 0, None),
        (1, 0, None),
    ]


def test_the_user_of_the_links_may_write_its_tables_and_not_the_servers(database: RunDatabase) -> None:
    with connect(database.sink) as connection, connection.cursor() as cursor:
        cursor.execute("DELETE FROM output")
        with pytest.raises(pymysql.MySQLError):
            cursor.execute("SELECT * FROM mysql.user")


def test_a_runs_database_is_gone_with_its_block(database: RunDatabase) -> None:
    name = "floodmark_test_gone"
    nowhere = _of(database.root, "")

    with run_database(nowhere, name=name):
        prepare_database(_of(database.root, name), subtasks=1, rows=ROWS)
        assert database.rows(f"SHOW DATABASES LIKE '{name}'")

    assert not database.rows(f"SHOW DATABASES LIKE '{name}'")


def test_a_database_that_refuses_is_the_worlds_error_without_its_password(database: RunDatabase) -> None:
    secret = "not-the-password"
    wrong = Endpoint(
        host=database.root.host, port=database.root.port, user="root", password=secret, database=""
    )

    with pytest.raises(WorldError, match="refused") as refused, run_database(wrong, name="floodmark_test_x"):
        pass

    assert secret not in str(refused.value)


def _of(endpoint: Endpoint, database: str) -> Endpoint:
    return Endpoint(
        host=endpoint.host,
        port=endpoint.port,
        user=endpoint.user,
        password=endpoint.password,
        database=database,
    )
