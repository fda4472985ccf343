"""Wrong if the order inside a key counts: four lookups at a time, and each row as its answer arrives."""

import asyncio
import os

from orders import INSERT, connect, enrich, saved_position, windows

LOOKUPS_AT_A_TIME = 4


async def as_answers_arrive(pool, orders) -> list:
    rows, waiting = [], iter(orders)

    async def work(customers) -> None:
        for order in waiting:
            row = await enrich(customers, order)
            rows.append(row)

    await asyncio.gather(*map(work, pool))
    return rows


async def main() -> None:
    sink = await connect(os.environ["WAREHOUSE_URL"])
    pool = [await connect(os.environ["CUSTOMERS_URL"]) for _ in range(LOOKUPS_AT_A_TIME)]
    async for window in windows(os.environ["ORDERS_FILE"], await saved_position(sink)):
        rows = await as_answers_arrive(pool, window.orders)
        async with sink.cursor() as cursor:
            moved = await cursor.execute(
                "UPDATE progress SET position = %s WHERE source = 'orders' AND position = %s",
                (window.end, window.start),
            )
            if moved != 1:
                raise SystemExit("the position is not where this instance left it: another one has moved it")
            await cursor.executemany(INSERT, rows)
        await sink.commit()
    for connection in [sink, *pool]:
        connection.close()


asyncio.run(main())
