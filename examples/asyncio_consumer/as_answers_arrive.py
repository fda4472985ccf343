"""Wrong if the order inside a key counts: all lookups of a window at once, and each row as its answer arrives."""

import asyncio
import os

from orders import INSERT, WINDOW, connect, enrich, saved_position, windows


async def main() -> None:
    sink = await connect(os.environ["WAREHOUSE_URL"])
    pool = [await connect(os.environ["CUSTOMERS_URL"]) for _ in range(WINDOW)]
    async for window in windows(os.environ["ORDERS_FILE"], await saved_position(sink)):
        async with sink.cursor() as cursor:
            moved = await cursor.execute(
                "UPDATE progress SET position = %s WHERE source = 'orders' AND position = %s",
                (window.end, window.start),
            )
            if moved != 1:
                raise SystemExit("the position is not where this instance left it: another one has moved it")
            for row in asyncio.as_completed(map(enrich, pool, window.orders)):
                await cursor.execute(INSERT, await row)
        await sink.commit()
    for connection in [sink, *pool]:
        connection.close()


asyncio.run(main())
