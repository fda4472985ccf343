"""Wrong where lookups go to a replica: it reads its position there too, and the replica may be behind."""

import asyncio
import os

from orders import INSERT, connect, enrich, saved_position, windows


async def main() -> None:
    sink = await connect(os.environ["WAREHOUSE_URL"])
    customers = await connect(os.environ["CUSTOMERS_URL"])
    async for window in windows(os.environ["ORDERS_FILE"], await saved_position(customers)):
        rows = [await enrich(customers, order) for order in window.orders]
        async with sink.cursor() as cursor:
            await cursor.executemany(INSERT, rows)
            await cursor.execute("UPDATE progress SET position = %s WHERE source = 'orders'", (window.end,))
        await sink.commit()


asyncio.run(main())
