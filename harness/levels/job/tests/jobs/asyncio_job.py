"""An asyncio job in many variants, some of them wrong: it reads a growing file, looks up, and writes to a table.

`python asyncio_job.py VARIANT [BATCH]`. It knows nothing of the harness but its environment variables, as a user's job
would. `VARIANTS` says what each does wrong, if anything.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import asyncmy

Row = tuple[Any, ...]
Record = dict[str, Any]

_ROWS = "INSERT INTO enriched (id, k, name, city, tier) VALUES (%s, %s, %s, %s, %s)"
_REPLACED = "REPLACE INTO enriched (id, k, name, city, tier) VALUES (%s, %s, %s, %s, %s)"
_SET = "UPDATE offsets SET pos = %s"
_COMPARE_AND_SET = "UPDATE offsets SET pos = %s WHERE pos = %s"
_ATTEMPTS = 10


async def connect(which: str) -> Any:
    """A connection to the database of `which` link."""
    url = urlparse(os.environ[f"FLOODMARK_JOB_{which}_URL"])
    return await asyncmy.connect(
        host=url.hostname, port=url.port, user=url.username, password=url.password, db=url.path.strip("/")
    )


async def execute(connection: Any, statement: str, *values: Any) -> int:
    """Executes one statement; returns how many rows it changed."""
    async with connection.cursor() as cursor:
        return int(await cursor.execute(statement, values))


async def write(connection: Any, rows: list[Row], statement: str = _ROWS) -> None:
    """Writes the rows with one statement."""
    async with connection.cursor() as cursor:
        await cursor.executemany(statement, rows)


async def one(connection: Any, statement: str, *values: Any) -> Row | None:
    """The first row of a query."""
    async with connection.cursor() as cursor:
        await cursor.execute(statement, values)
        row: Row | None = await cursor.fetchone()
        return row


async def make_tables(sink: Any) -> None:
    """Those of the job, if they are not there yet."""
    key = ", PRIMARY KEY (id)" if VARIANT == "replaces" else ""
    await execute(
        sink,
        "CREATE TABLE IF NOT EXISTS enriched "
        f"(id BIGINT, k VARCHAR(64), name VARCHAR(64), city VARCHAR(64), tier VARCHAR(64){key})",
    )
    await execute(sink, "CREATE TABLE IF NOT EXISTS offsets (one INT PRIMARY KEY, pos BIGINT NOT NULL)")
    await execute(sink, "CREATE TABLE IF NOT EXISTS done (first BIGINT PRIMARY KEY)")
    if await one(sink, "SELECT pos FROM offsets") is None:
        await execute(sink, "INSERT INTO offsets VALUES (1, 0)")
    await sink.commit()


async def batches(position: int, size: int) -> AsyncIterator[tuple[int, list[Record]]]:
    """The records from `position` on, in batches with the position after each; follows the file until its end."""
    read, whole = 0, b""
    waiting: list[Record] = []
    path = Path(os.environ["FLOODMARK_JOB_SOURCE_FILE"])
    offset = 0
    while True:
        if path.exists():
            with path.open("rb") as file:
                file.seek(offset)
                whole += (new := file.read())
                offset += len(new)
        *lines, whole = whole.split(b"\n")
        for line in lines:
            record = json.loads(line)
            if record.get("end"):
                if waiting:
                    yield read, waiting
                return
            read += 1
            if read > position:
                waiting.append(record)
            if len(waiting) == size:
                yield read, waiting
                waiting = []
        await asyncio.sleep(0.02)


async def looked_up(lookups: Any, record: Record) -> Row:
    """The row to write for a record."""
    found = await one(lookups, "SELECT name, city, tier FROM customer WHERE k = %s", record["key"])
    await lookups.commit()
    return (record["id"], record["key"], *(found or (None, None, None)))


async def position_of(sink: Any) -> int:
    """Where the job stands."""
    found = await one(sink, "SELECT pos FROM offsets")
    await sink.commit()
    return int(found[0]) if found else 0


Step = Callable[[Any, int, int, list[Row]], Coroutine[Any, Any, None]]


async def offset_before_rows(sink: Any, before: int, after: int, rows: list[Row]) -> None:
    """Wrong: what dies between the two transactions loses the rows."""
    await execute(sink, _SET, after)
    await sink.commit()
    await write(sink, rows)
    await sink.commit()


async def rows_before_offset(sink: Any, before: int, after: int, rows: list[Row]) -> None:
    """Wrong if exactly once is claimed: what dies between the two transactions writes the rows again."""
    await write(sink, rows)
    await sink.commit()
    await execute(sink, _SET, after)
    await sink.commit()


async def one_transaction(sink: Any, before: int, after: int, rows: list[Row]) -> None:
    """Right against every kill; wrong if a COMMIT arrives late."""
    await write(sink, rows)
    await execute(sink, _SET, after)
    await sink.commit()


async def compare_and_set(sink: Any, before: int, after: int, rows: list[Row]) -> None:
    """Right: who finds another position than it read gives up."""
    await write(sink, rows)
    if await execute(sink, _COMPARE_AND_SET, after, before) != 1:
        await sink.rollback()
        raise RuntimeError("another start has taken over")
    await sink.commit()


async def blind_retry(sink: Any, before: int, after: int, rows: list[Row]) -> None:
    """Wrong: a COMMIT whose answer is lost may have been carried out."""
    for _ in range(_ATTEMPTS):
        try:
            await one_transaction(sink.connection, before, after, rows)
        except Exception:  # noqa: BLE001 - that is the mistake
            sink.connection = await connect("SINK")
        else:
            return
    raise RuntimeError("the database does not answer")


async def replaces(sink: Any, before: int, after: int, rows: list[Row]) -> None:
    """Right with `write = "replace"`: a row written twice is one row."""
    await write(sink, rows, _REPLACED)
    await sink.commit()
    await execute(sink, _SET, after)
    await sink.commit()


async def reads_in_transactions(sink: Any, before: int, after: int, rows: list[Row]) -> None:
    """Right: transactions that only read end by COMMIT, too."""
    for _ in range(3):
        await execute(sink, "START TRANSACTION")
        await one(sink, "SELECT COUNT(*) FROM enriched")
        await sink.commit()
    await compare_and_set(sink, before, after, rows)


class Retrying:
    """A connection that is replaced when it fails."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection


VARIANTS: dict[str, Step] = {
    "offset-before-rows": offset_before_rows,
    "rows-before-offset": rows_before_offset,
    "one-transaction": one_transaction,
    "compare-and-set": compare_and_set,
    "blind-retry": blind_retry,
    "replaces": replaces,
    "reads-in-transactions": reads_in_transactions,
    "slow-start": compare_and_set,
}


async def in_steps(step: Step, size: int) -> None:
    """Batch by batch: ask for all records at once, then write in the source's order."""
    sink, lookups = await connect("SINK"), await connect("LOOKUPS")
    await make_tables(sink)
    if VARIANT == "slow-start":
        threading.Event().wait(float(os.environ.get("SLOW_START_S", "60")))
    position = await position_of(sink)
    target = Retrying(sink) if VARIANT == "blind-retry" else sink
    async for after, records in batches(position, size):
        rows = [await looked_up(lookups, record) for record in records]
        await step(target, position, after, rows)
        position = after


async def as_they_arrive(size: int, *, in_order: bool) -> None:
    """Asks for several records at once over several connections; wrong if it keeps no order and claims one.

    Each is asked for a little later than the one before, so that their answers come in order where none is held.
    """
    sink = await connect("SINK")
    await make_tables(sink)
    pool: asyncio.Queue[Any] = asyncio.Queue()
    for _ in range(4):
        pool.put_nowait(await connect("LOOKUPS"))
    position = await position_of(sink)

    arrived: asyncio.Queue[Row] = asyncio.Queue()

    async def ask(record: Record) -> Row:
        lookups = await pool.get()
        try:
            row = await looked_up(lookups, record)
            arrived.put_nowait(row)
            return row
        finally:
            pool.put_nowait(lookups)

    async for after, records in batches(position, size):
        asked = []
        for record in records:
            asked.append(asyncio.create_task(ask(record)))
            await asyncio.sleep(0.03)
        for task in asked:
            await execute(sink, _ROWS, *(await task if in_order else await arrived.get()))
        if await execute(sink, _COMPARE_AND_SET, after, position) != 1:
            raise RuntimeError("another start has taken over")
        await sink.commit()
        position = after


async def parallel_writers(size: int) -> None:
    """Right: two writers, each with a connection of its own; who wrote a batch is noted in its transaction."""
    queue: asyncio.Queue[tuple[int, list[Record]] | None] = asyncio.Queue(maxsize=4)
    first = await connect("SINK")
    await make_tables(first)

    async def writer(sink: Any) -> None:
        lookups = await connect("LOOKUPS")
        while (batch := await queue.get()) is not None:
            after, records = batch
            rows = [await looked_up(lookups, record) for record in records]
            if await execute(sink, "INSERT IGNORE INTO done VALUES (%s)", after) == 1:
                await write(sink, rows)
            await sink.commit()

    async def reader() -> None:
        async for batch in batches(0, size):
            await queue.put(batch)
        for _ in range(2):
            await queue.put(None)

    async with asyncio.TaskGroup() as group:
        group.create_task(writer(first))
        group.create_task(writer(await connect("SINK")))
        group.create_task(reader())


async def two_workers(*, newest: bool) -> None:
    """Two records at work, each on a connection of its own; wrong if the position of the newest one done is saved.

    The first of each five takes its time, while the other worker does the next ones.
    """
    sinks = [await connect("SINK"), await connect("SINK")]
    await make_tables(sinks[0])
    saved = Path(os.environ["FLOODMARK_JOB_STATE_FOLDER"]) / "position"
    position = int(saved.read_text()) if saved.exists() else 0
    done, running = set(range(position)), set[asyncio.Task[None]]()

    async def work(number: int, record: Record) -> None:
        sink = sinks.pop()
        row = await looked_up(sink, record)
        await asyncio.sleep(float(os.environ.get("SLOW_S", "0.3")) if number % 5 == 0 else 0)
        await write(sink, [row])
        await sink.commit()
        sinks.append(sink)
        done.add(number)
        place = max(done) + 1 if newest else next(at for at in count() if at not in done)
        saved.with_suffix(".new").write_text(str(place))
        saved.with_suffix(".new").rename(saved)

    async for after, records in batches(position, 1):
        running.add(asyncio.create_task(work(after - 1, records[0])))
        if len(running) == 2:
            ended, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
    await asyncio.gather(*running)


async def main() -> None:
    """Runs the variant to the end of its input."""
    size = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    if VARIANT in {"as-they-arrive", "in-order"}:
        await as_they_arrive(size, in_order=VARIANT == "in-order")
    elif VARIANT == "parallel-writers":
        await parallel_writers(size)
    elif VARIANT in {"newest-saved", "lowest-saved"}:
        await two_workers(newest=VARIANT == "newest-saved")
    else:
        await in_steps(VARIANTS[VARIANT], size)


VARIANT = sys.argv[1] if len(sys.argv) > 1 else "compare-and-set"

if __name__ == "__main__":
    asyncio.run(main())
