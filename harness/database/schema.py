"""The tables of one run in a database of its own: the lookup table, the sink's tables and the audit log.

Invariant: a trigger of the database writes the audit log in the transaction that writes an output, so it shows what
became visible, whatever the sink believes. No key forbids duplicates, because a duplicate must be seen and not
refused; the exception is the sink that upserts by key. No column takes a negative subtask or `j`, which a history
could not hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import pymysql

from harness.database.driver import Cursor
from harness.database.endpoint import Endpoint, connect
from harness.system.errors import WorldError

_TABLES = (
    # `part` is the second part of a composite key; `ver` counts the changes of the row during the run.
    """CREATE TABLE customer (
         n INT AUTO_INCREMENT PRIMARY KEY, k BIGINT NOT NULL, part BIGINT NULL, name VARCHAR(200) NOT NULL,
         city VARCHAR(200) NULL, tier BIGINT NOT NULL, ver INT NOT NULL DEFAULT 0, INDEX (k))""",
    """CREATE TABLE output (
         seq BIGINT AUTO_INCREMENT PRIMARY KEY, subtask INT UNSIGNED NOT NULL, id BIGINT NOT NULL,
         j INT UNSIGNED NOT NULL, v LONGTEXT NOT NULL, epoch INT NOT NULL, token INT NOT NULL)""",
    """CREATE TABLE audit (
         seq BIGINT AUTO_INCREMENT PRIMARY KEY, subtask INT UNSIGNED NOT NULL, id BIGINT NOT NULL,
         j INT UNSIGNED NOT NULL, v LONGTEXT NOT NULL, epoch INT NOT NULL, token INT NOT NULL)""",
    """CREATE TABLE epoch (
         subtask INT NOT NULL, epoch INT NOT NULL, token INT NOT NULL, pos INT NOT NULL,
         elements LONGTEXT NOT NULL, PRIMARY KEY (subtask, epoch))""",
    """CREATE TABLE dead_letter (
         seq BIGINT AUTO_INCREMENT PRIMARY KEY, subtask INT NOT NULL, id BIGINT NOT NULL,
         error LONGTEXT NOT NULL, epoch INT NOT NULL, token INT NOT NULL)""",
    """CREATE TABLE fence (
         subtask INT PRIMARY KEY, token INT NOT NULL, origin_ms BIGINT NULL, ended INT NOT NULL DEFAULT 0,
         generation INT NOT NULL DEFAULT 0)""",
    # For coordinated sinks: which parts were acknowledged, and which checkpoints are complete.
    """CREATE TABLE ack (
         subtask INT NOT NULL, epoch INT NOT NULL, token INT NOT NULL, file VARCHAR(200) NOT NULL,
         PRIMARY KEY (subtask, epoch))""",
    "CREATE TABLE completed (epoch INT PRIMARY KEY)",
    # For attempts on hosts that share no folder: `harness.database.shared_tables`.
    """CREATE TABLE store_file (
         subtask INT NOT NULL, name VARCHAR(200) NOT NULL, data LONGBLOB NOT NULL, PRIMARY KEY (subtask, name))""",
    """CREATE TABLE mark (
         seq BIGINT AUTO_INCREMENT PRIMARY KEY, subtask INT NOT NULL, line MEDIUMTEXT NOT NULL, INDEX (subtask))""",
    # For batches, which one driver commits for all subtasks: which driver is the newest.
    "CREATE TABLE driver (one INT PRIMARY KEY, generation INT NOT NULL)",
    "INSERT INTO driver (one, generation) VALUES (1, 0)",
    """CREATE TRIGGER audit_output AFTER INSERT ON output FOR EACH ROW
         INSERT INTO audit (subtask, id, j, v, epoch, token)
         VALUES (NEW.subtask, NEW.id, NEW.j, NEW.v, NEW.epoch, NEW.token)""",
)

_TEXT_KEYS = "ALTER TABLE customer MODIFY k VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"
"""A binary collation, since by the default one texts that differ in case or accents are equal."""
_KEYS = (
    "ALTER TABLE output ADD UNIQUE KEY (subtask, id, j)",
    "ALTER TABLE dead_letter ADD UNIQUE KEY (subtask, id)",
)
_KEYS_BY_RECORD = (
    "ALTER TABLE output ADD UNIQUE KEY (id, j)",
    "ALTER TABLE dead_letter ADD UNIQUE KEY (id)",
)


@contextmanager
def run_database(root: Endpoint, *, name: str, stays: bool = False, anew: bool = False) -> Iterator[str]:
    """Create the database `name` for the duration of the block; with `stays`, it is not dropped afterwards.

    `anew`: one of that name is dropped before.
    """
    with _as_root(root) as cursor:
        if anew:
            cursor.execute(f"DROP DATABASE IF EXISTS `{name}`")
        cursor.execute(f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4")
    try:
        yield name
    finally:
        # If the server does not answer, the database stays and is deleted with the world.
        if not stays:
            with suppress(WorldError), _as_root(root) as cursor:
                cursor.execute(f"DROP DATABASE IF EXISTS `{name}`")


@contextmanager
def _as_root(root: Endpoint) -> Iterator[Cursor]:
    try:
        with connect(root) as connection, connection.cursor() as cursor:
            yield cursor
            connection.commit()
    except pymysql.MySQLError as error:
        message = f"the database at {root.host}:{root.port} refused the run's set-up: {error.args}"
        raise WorldError(message, fix="floodmark doctor shows what the world lacks") from error


def prepare_database(
    root: Endpoint,
    *,
    subtasks: int,
    rows: Sequence[Sequence[object]],
    keyed: bool = False,
    by_record: bool = False,
) -> None:
    """Create the tables in `root.database` and fill the lookup table.

    `keyed`: add the unique keys of outputs and of dead letters that `IdempotentSink` needs; `by_record`: without the
    subtask, for after a rescale another one writes the same record again.
    """
    with _as_root(root) as cursor:
        keys = (_KEYS_BY_RECORD if by_record else _KEYS) if keyed else ()
        for statement in (*_TABLES, *keys):
            cursor.execute(statement)
        if not all(isinstance(row[0], int) for row in rows):
            cursor.execute(_TEXT_KEYS)
        _insert_customers(cursor, rows)
        fences = [[subtask, 0] for subtask in range(subtasks)]
        cursor.executemany("INSERT INTO fence (subtask, token) VALUES (%s, %s)", fences)


def fill_customers(root: Endpoint, rows: Sequence[Sequence[object]]) -> None:
    """Replace the rows of the lookup table, whose keys are of the same kind as before."""
    with _as_root(root) as cursor:
        cursor.execute("DELETE FROM customer")
        _insert_customers(cursor, rows)


def _insert_customers(cursor: Cursor, rows: Sequence[Sequence[object]]) -> None:
    """The rows are numbered from 1, whatever was in the table before."""
    cursor.executemany(
        "INSERT INTO customer (n, k, part, name, city, tier) VALUES (%s, %s, %s, %s, %s, %s)",
        [
            (n, *(key if isinstance(key, tuple) else (key, None)), *values)
            for n, (key, *values) in enumerate(rows, start=1)
        ],
    )
