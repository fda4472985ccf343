"""A job whose table changes where the log of changes shows nothing. `python unlogged_job.py WORD`.

open      removes the batch that a dead start left open, and by a foreign key its rows
all       wrong: removes every batch but the newest done one
swap      makes the whole table beside the old one, and renames both
swap-on   wrong: goes on behind the saved position with an empty table, which it renames in the end
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pymysql

HOW = sys.argv[1]
BATCH = 10
NEVER = threading.Event()
"""Is waited for to let time pass."""
ENRICHED = (
    "CREATE TABLE IF NOT EXISTS {} (id BIGINT NOT NULL, k BIGINT, name VARCHAR(200), city VARCHAR(200), tier INT, batch"
    " BIGINT NOT NULL{})"
)
KEY = ", FOREIGN KEY (batch) REFERENCES batch (no) ON DELETE CASCADE"


def batches(done: int) -> Iterator[list[Any]]:
    """The records behind the first `done`, until the input ends."""
    folder = Path(os.environ["FLOODMARK_JOB_SOURCE_FOLDER"])
    while True:
        ended = (folder / "_END").exists()
        records = [
            json.loads(line)
            for file in sorted(folder.glob("*.jsonl"))
            for line in file.read_text().splitlines()
        ]
        if batch := records[done : done + BATCH]:
            yield batch
            done += len(batch)
        elif ended:
            return
        else:
            NEVER.wait(0.02)


def write(cursor: Any, table: str, batch: list[Any], number: int) -> None:
    """Writes a batch."""
    for record in batch:
        cursor.execute("SELECT name, city, tier FROM customer WHERE k = %s", (record["key"],))
        row = (record["id"], record["key"], *cursor.fetchone(), number)
        cursor.execute(f"INSERT INTO {table} VALUES (%s, %s, %s, %s, %s, %s)", row)


def by_batches(cursor: Any) -> None:
    """A row of `batch` for each batch; what is open belongs to a start that has died."""
    cursor.execute("CREATE TABLE IF NOT EXISTS batch (no BIGINT PRIMARY KEY, state VARCHAR(10) NOT NULL)")
    cursor.execute(ENRICHED.format("enriched", KEY))
    cursor.execute("SELECT COALESCE(MAX(no), 0) FROM batch WHERE state = 'done'")
    (done,) = cursor.fetchone()
    cursor.execute("DELETE FROM batch WHERE " + ("state = 'open'" if HOW == "open" else f"no <> {done}"))
    for batch in batches(done):
        done += len(batch)
        cursor.execute("INSERT INTO batch VALUES (%s, 'open')", (done,))
        write(cursor, "enriched", batch, done)
        cursor.execute("UPDATE batch SET state = 'done' WHERE no = %s", (done,))


def by_swapping(cursor: Any) -> None:
    """The table is made as a whole, under another name."""
    cursor.execute("DROP TABLE IF EXISTS staging, old")
    cursor.execute(ENRICHED.format("enriched", ""))
    cursor.execute("CREATE TABLE staging LIKE enriched")
    state = Path(os.environ["FLOODMARK_JOB_STATE_FOLDER"], "done")
    done = int(state.read_text()) if HOW == "swap-on" and state.exists() else 0
    for batch in batches(done):
        done += len(batch)
        write(cursor, "staging", batch, done)
        if HOW == "swap-on":
            state.write_text(str(done))
    cursor.execute("RENAME TABLE enriched TO old, staging TO enriched")


def main() -> None:
    """Runs to the end of the source."""
    place = urlparse(os.environ["FLOODMARK_JOB_SINK_URL"])
    database = pymysql.connect(
        host=place.hostname,
        port=place.port or 0,
        user=place.username,
        password=place.password or "",
        database=place.path[1:],
        autocommit=True,
    )
    with database.cursor() as cursor:
        (by_batches if HOW in {"open", "all"} else by_swapping)(cursor)


main()
