"""What both consumers of the table `inbox` do alike: ask for the rows behind their position, and look them up."""

import asyncio
import json
import os

from orders import INSERT, POLL_S, WINDOW, connect, enrich, saved_position

ROWS = "SELECT pos, body FROM inbox WHERE pos >= %s ORDER BY pos LIMIT %s"
END = "SELECT pos FROM inbox_end WHERE pos < %s"


async def fetched(inbox, statement, values):
    """The rows of a query, from a snapshot of its own."""
    async with inbox.cursor() as cursor:
        await cursor.execute(statement, values)
        rows = await cursor.fetchall()
    await inbox.commit()
    return rows


async def consume(take) -> None:
    """Writes the rows that `take(position, rows)` chooses, with the position behind them, in one transaction."""
    sink, customers = await asyncio.gather(
        connect(os.environ["WAREHOUSE_URL"]), connect(os.environ["CUSTOMERS_URL"])
    )
    position = await saved_position(sink)
    while not await fetched(customers, END, (position,)):
        taken = take(position, await fetched(customers, ROWS, (position, WINDOW)))
        if not taken:
            await asyncio.sleep(POLL_S)
            continue
        rows = [await enrich(customers, json.loads(body)) for _, body in taken]
        before, position = position, taken[-1][0] + 1
        async with sink.cursor() as cursor:
            moved = await cursor.execute(
                "UPDATE progress SET position = %s WHERE source = 'orders' AND position = %s",
                (position, before),
            )
            if moved != 1:
                raise SystemExit("the position is not where this instance left it: another one has moved it")
            await cursor.executemany(INSERT, rows)
        await sink.commit()
    sink.close()
    customers.close()
