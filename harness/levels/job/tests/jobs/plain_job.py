"""A plain job in many variants, some of them wrong: it reads a source, looks each record up, writes to a table.

`python plain_job.py WORD...`. It knows nothing of the harness but its environment variables, as a user's job would.

    append       commits its rows before its position: doubles after a kill between the two
    ahead        commits its position before its rows: loses after a kill between the two
    cycle=A/B+C  of each batch commits A, then B with C; they are rows, place, audit
    stays        goes on waiting after the last record
    behind       asks the table `inbox` only for what is behind its position, and `inbox_end` for the end
    in-order     takes rows of the table up to the first position that is missing; with `behind`
    locks        reads the table with locks, so that it waits for what is not committed
    unaware      does not ask `inbox_end`
    in-file      keeps its position in a file
    drops-state  the same, and removes it in the end
    buffer=N     keeps rows until it has N, and its position with them, or with `ahead` before them
    says-done    makes the done file, and goes on waiting
    no-state     keeps no position: reads all again, and writes under a key
    crashes      exits with code 3 after the first batch
    crashes-late exits with code 3 from its second start on
    elsewhere    writes to a table of another name
    hangs        does nothing
    ignores-term goes on when it is asked to end
    slow=S       needs S seconds before it reads, from its second start on
    late=S       needs S seconds before it connects, in each start, as a JVM does
    autocommit   has each statement committed by itself: doubles after a kill behind the rows
    alone        exits with code 0 if another start of it runs
    pace=S       pauses for S seconds before each batch
    nonsense     writes another name each time
    skips        leaves out a record whose lookup fails: loses it
    forgets      goes on after a lost connection on a new one, and writes there without a COMMIT
    again        the same, with a COMMIT
    singly       sends each row in an INSERT of its own
    goes-on      after an error goes on with the statement that failed, on a new connection if the old one is lost
    defines      makes a table before its COMMIT
    temporary    makes a temporary one there
    engine=NAME  makes its table with this engine
    ignore       writes with INSERT IGNORE
    narrow       its names have 4 characters
    connects     opens a connection for the lookups of each batch
    briefly      opens a connection for the writes of each batch
    in-one       sends each transaction in one query, from START TRANSACTION to COMMIT
    prepared     prepares and executes its writes
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pymysql
from pymysql.constants import CLIENT, COMMAND

WORDS = set(sys.argv[1:])
BATCH = 10
PLACE = Path(os.environ["FLOODMARK_JOB_STATE_FOLDER"], "in-file" if "in-file" in WORDS else "drops-state")
NEVER = threading.Event()
"""Is waited for to let time pass."""
TABLE = "other" if "elsewhere" in WORDS else "enriched"
CYCLE = {"append": "rows/place", "ahead": "place/rows", "no-state": "rows"}.get(sys.argv[1], "rows+place")
"""The transactions of a batch, in their order, each with its steps."""
for word in WORDS:
    CYCLE = word.removeprefix("cycle=") if word.startswith("cycle=") else CYCLE
_NAME = "VARCHAR(4)" if "narrow" in WORDS else "VARCHAR(200)"
_COLUMNS = f"id BIGINT, k BIGINT, name {_NAME}, city VARCHAR(200), tier BIGINT"
_ENGINE = "".join(f" {word}" for word in WORDS if word.startswith("engine="))


def connect(link: str) -> Any:
    """A connection over one of the two links."""
    url = urlparse(os.environ[f"FLOODMARK_JOB_{link}_URL"])
    return pymysql.connect(
        host=url.hostname,
        port=url.port or 0,
        user=url.username,
        password=url.password or "",
        database=url.path[1:],
        autocommit="autocommit" in WORDS,
        client_flag=CLIENT.MULTI_STATEMENTS if "in-one" in WORDS else 0,
    )


def lines(skip: int) -> Iterator[str | None]:
    """The lines of the source in order, with `behind` those from number `skip` on; None: none is there now."""
    match os.environ["FLOODMARK_JOB_SOURCE_KIND"]:
        case "folder":
            yield from of_folder()
        case "file":
            yield from of_file()
        case _:
            yield from of_table(skip)


def of_folder() -> Iterator[str | None]:
    folder, read = Path(os.environ["FLOODMARK_JOB_SOURCE_FOLDER"]), ""
    while True:
        is_whole = (folder / "_END").exists()
        for file in sorted(folder.glob("*.jsonl")):
            if file.name > read:
                read = file.name
                yield from file.read_text().splitlines()
        yield None
        if is_whole:
            return


def of_file() -> Iterator[str | None]:
    file, place = Path(os.environ["FLOODMARK_JOB_SOURCE_FILE"]), 0
    while True:
        whole = file.read_text()[place:]
        whole = whole[: whole.rfind("\n") + 1]
        place += len(whole)
        for line in whole.splitlines():
            if "end" in json.loads(line):
                return
            yield line
        yield None


def of_table(skip: int) -> Iterator[str | None]:
    inbox, place = connect("SINK"), skip - 1 if "behind" in WORDS else -1
    while True:
        inbox.rollback()
        with inbox.cursor() as cursor:
            locks = " FOR UPDATE" if "locks" in WORDS else ""
            cursor.execute(f"SELECT pos, body, last FROM inbox WHERE pos > %s ORDER BY pos{locks}", (place,))
            rows = cursor.fetchall()
            if "in-order" in WORDS:
                rows = [row for number, row in enumerate(rows, place + 1) if row[0] == number]
            is_over = "unaware" not in WORDS and cursor.execute(
                "SELECT pos FROM inbox_end WHERE pos <= %s", (place,)
            )
        for place, body, _ in rows:  # noqa: B007 - the last place is kept
            yield body
        yield None
        if is_over or (rows and rows[-1][2]):
            return


def batches(skip: int) -> Iterator[list[Any]]:
    """The records from number `skip` on; a short batch when nothing more is there now."""
    batch, number = [], skip if "behind" in WORDS else 0
    for line in lines(skip):
        if line is not None:
            number += 1
            if number > skip:
                batch.append(json.loads(line))
        if batch and (line is None or len(batch) == BATCH):
            yield batch
            batch = []
        if line is None:
            NEVER.wait(0.02)
    if batch:
        yield batch


def looked_up(lookups: Any, batch: list[Any]) -> Iterator[tuple[Any, ...]]:
    """The rows of the records of a batch."""
    for record in batch:
        with lookups.cursor() as cursor:
            try:
                cursor.execute("SELECT name, city, tier FROM customer WHERE k = %s", (record["key"],))
            except pymysql.MySQLError:
                if "skips" in WORDS:
                    continue
                raise
            name, city, tier = cursor.fetchone()
        if "nonsense" in WORDS:
            name = str(time.time_ns())
        yield record["id"], record["key"], name, city, tier


def written(sink: Any, rows: list[Any], position: int) -> None:
    """Writes a batch and the position behind it."""
    if "briefly" in WORDS:
        sink.close()
        sink.connect()
    verb = "INSERT IGNORE" if WORDS & {"no-state", "ignore"} else "INSERT"
    values = [sink.cursor().mogrify("(%s, %s, %s, %s, %s)", row) for row in rows]
    inserts = values if "singly" in WORDS else [", ".join(values)] if values else []
    define = "CREATE TEMPORARY TABLE" if "temporary" in WORDS else "CREATE TABLE"
    place = f"UPDATE place SET pos = {position}"
    steps = {
        "rows": [f"{verb} INTO {TABLE} VALUES {insert}" for insert in inserts],
        "place": [place],
        "audit": [f"INSERT INTO audit VALUES ({position})"],
    }
    if WORDS & {"defines", "temporary"}:
        steps["rows"].append(f"{define} IF NOT EXISTS scratch (n INT)")
    for transaction in CYCLE.split("/"):
        statements = [statement for step in transaction.split("+") for statement in steps[step]]
        with sink.cursor() as cursor:
            if "in-one" in WORDS:
                cursor.execute("; ".join(["START TRANSACTION", *statements, "COMMIT"]))
                while cursor.nextset():
                    pass
                continue
            for statement in statements:
                if statement is place and WORDS & {"in-file", "drops-state"}:
                    PLACE.write_text(str(position))
                elif "prepared" in WORDS:
                    execute_prepared(sink, statement)
                else:
                    executed(sink, statement)
        if not ("forgets" in WORDS and LOST):
            sink.commit()


def executed(sink: Any, statement: str) -> None:
    """Executes a statement; with `goes-on` once more after an error."""
    try:
        sink.cursor().execute(statement)
    except pymysql.MySQLError:
        if "goes-on" not in WORDS:
            raise
        if not sink.open:
            connect_again(sink)
        sink.cursor().execute(statement)


def connect_again(sink: Any) -> None:
    """Connects anew, which fails as long as the fault lasts."""
    for _ in range(100):
        try:
            sink.connect()
        except pymysql.MySQLError:
            NEVER.wait(0.05)
        else:
            return
    raise SystemExit("no database")


def written_again(sink: Any, rows: list[Any], position: int) -> None:
    """Writes a batch; on a new connection if the old one is lost."""
    try:
        written(sink, rows, position)
    except pymysql.MySQLError:
        if not WORDS & {"forgets", "again"}:
            raise
        LOST.append(position)
        connect_again(sink)
        written(sink, rows, position)


LOST: list[int] = []
"""The positions at which the connection was lost."""


def execute_prepared(sink: Any, statement: str) -> None:
    """Prepares a statement without parameters and executes it once; the client has no method that does so."""
    sink._execute_command(COMMAND.COM_STMT_PREPARE, statement)
    number = sink._read_packet().get_all_data()[1:5]
    sink._execute_command(COMMAND.COM_STMT_EXECUTE, number + bytes([0, 1, 0, 0, 0]))
    sink._read_packet()


def buffered(sink: Any, rows: list[Any], position: int) -> list[Any]:
    """Writes the rows if there are enough; those that still wait."""
    if len(rows) >= seconds("buffer"):
        written_again(sink, rows, position)
        return []
    if CYCLE.startswith("place"):
        written(sink, [], position)
    return rows


def begun(sink: Any) -> int:
    """Makes the tables; the position to go on from."""
    with sink.cursor() as cursor:
        key = ", PRIMARY KEY (id)" if "no-state" in WORDS else ""
        cursor.execute(f"CREATE TABLE IF NOT EXISTS {TABLE} ({_COLUMNS}{key}){_ENGINE}")
        if "no-state" in WORDS:
            return 0
        if WORDS & {"in-file", "drops-state"}:
            return int(PLACE.read_text()) if PLACE.exists() else 0
        cursor.execute("CREATE TABLE IF NOT EXISTS place (one INT PRIMARY KEY, pos BIGINT NOT NULL)")
        cursor.execute("CREATE TABLE IF NOT EXISTS audit (pos BIGINT)")
        cursor.execute("INSERT IGNORE INTO place VALUES (1, 0)")
        sink.commit()
        cursor.execute("SELECT pos FROM place")
        return int(cursor.fetchone()[0])


def seconds(name: str) -> float:
    """The number of the word `name=S`; 0 without it."""
    return sum(float(word.removeprefix(f"{name}=")) for word in WORDS if word.startswith(f"{name}="))


def is_alone() -> bool:
    """Takes the lock of the job's state until the process ends; False: another process has it."""
    descriptor = os.open(Path(os.environ["FLOODMARK_JOB_STATE_FOLDER"], "lock"), os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def main() -> int:
    """Runs to the end of the source."""
    if "hangs" in WORDS:
        NEVER.wait()
    if "crashes-late" in WORDS and os.environ["FLOODMARK_JOB_START"] != "1":
        return 3
    if "ignores-term" in WORDS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "alone" in WORDS and not is_alone():
        return 0
    if os.environ["FLOODMARK_JOB_START"] != "1":
        NEVER.wait(seconds("slow"))
    NEVER.wait(seconds("late"))
    lookups, sink = connect("LOOKUPS"), connect("SINK")
    position, rows = begun(sink), list[Any]()
    for batch in batches(position):
        NEVER.wait(seconds("pace"))
        if not lookups.open:
            lookups = connect("LOOKUPS")
        rows += looked_up(lookups, batch)
        if "connects" in WORDS:
            lookups.close()
        # Record n stands at pos n - 1, so that the number of the last one is the position behind it.
        position = batch[-1]["id"] if "behind" in WORDS else position + len(batch)
        rows = buffered(sink, rows, position)
        if "crashes" in WORDS:
            return 3
        if "says-done" in WORDS and position >= int(os.environ.get("RECORDS", "60")):
            Path(os.environ["FLOODMARK_JOB_DONE_FILE"]).touch()
    PLACE.with_name("drops-state").unlink(missing_ok=True)
    while {"stays", "says-done"} & WORDS:
        NEVER.wait(0.05)
    return 0


if __name__ == "__main__":
    sys.exit(main())
