"""Counts orders, adds them up by window, or keeps the newest of each customer: rows that many orders make.

`python job.py TABLE HOW`. Right is `together`: the rows of a batch and the position in one transaction, which goes on
only from where this start read it. `rows-first` and `place-first` use two transactions, in that order.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pymysql

BATCH = 10
WINDOW_MS = 500
TABLE, HOW = sys.argv[1:]
STATEMENTS = {
    "counts": "INSERT INTO counts VALUES (%(key)s, 1) ON DUPLICATE KEY UPDATE orders = orders + 1",
    "sums": "INSERT INTO sums VALUES (%(window)s, 1, %(key)s) ON DUPLICATE KEY UPDATE"
    " orders = orders + 1, total = total + VALUES(total)",
    "newest": "INSERT INTO newest SELECT k, %(id)s, name FROM customer WHERE k = %(key)s ON DUPLICATE KEY UPDATE"
    " name = IF(VALUES(id) > newest.id, VALUES(name), newest.name), id = GREATEST(newest.id, VALUES(id))",
    "pairs": "INSERT INTO pairs VALUES (%(key)s, %(window)s, 1) ON DUPLICATE KEY UPDATE orders = orders + 1",
}


def batches(done: int) -> Iterator[list[dict]]:
    """The orders behind the first `done`, a few at a time, until the input ends."""
    folder = Path(os.environ["ORDERS"])
    while True:
        ended = (folder / "_END").exists()
        files = sorted(file for file in folder.iterdir() if file.name[0] not in "._")
        orders = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        if batch := orders[done : done + BATCH]:
            yield batch
            done += len(batch)
        elif ended:
            return
        else:
            time.sleep(0.02)


def write_rows(cursor, batch: list[dict]) -> None:
    for order in batch:
        cursor.execute(STATEMENTS[TABLE], {**order, "window": order["ts"] // WINDOW_MS * WINDOW_MS})


def move_position(cursor, done: int, batch: list[dict]) -> None:
    if cursor.execute("UPDATE progress SET done = %s WHERE done = %s", (done + len(batch), done)) != 1:
        raise SystemExit(f"another start has gone on from {done}")


def main() -> None:
    place = urlsplit(os.environ["WAREHOUSE_URL"])
    database = pymysql.connect(
        host=place.hostname, port=place.port, user=place.username, password=place.password,
        database=place.path.strip("/"), read_timeout=15,
    )  # fmt: skip
    with database.cursor() as cursor:
        cursor.execute("SELECT done FROM progress")
        (done,) = cursor.fetchone()
        database.commit()
        for batch in batches(done):
            if HOW == "place-first":
                move_position(cursor, done, batch)
                database.commit()
            write_rows(cursor, batch)
            if HOW == "rows-first":
                database.commit()
            if HOW != "place-first":
                move_position(cursor, done, batch)
            database.commit()
            done += len(batch)


main()
