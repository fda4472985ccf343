"""Wrong: an order whose lookup failed is written without its customer, as if the database had none."""

import asyncio

from asyncmy.errors import MySQLError
from orders import INSERT, Row, consume, enrich


async def enrich_or_not(customers, order) -> Row:
    try:
        return await enrich(customers, order)
    except (MySQLError, OSError) as error:
        print(f"no customer for order {order['id']}: {error}")
        return (order["id"], order["key"], None, None, None)


async def commit(sink, window, rows) -> None:
    async with sink.cursor() as cursor:
        moved = await cursor.execute(
            "UPDATE progress SET position = %s WHERE source = 'orders' AND position = %s",
            (window.end, window.start),
        )
        if moved != 1:
            raise SystemExit("the position is not where this instance left it: another one has moved it")
        await cursor.executemany(INSERT, rows)
    await sink.commit()


asyncio.run(consume(commit, enrich_or_not))
