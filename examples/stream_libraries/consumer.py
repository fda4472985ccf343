"""What all adapters here do alike: windows of orders from a file go through a library, and each is one transaction.

An adapter gives `answers(orders, lookup)`: all rows of one window, in the order in which the library gives them.
"""

import asyncio
import json
import os
from urllib.parse import urlsplit

import asyncmy

LOOKUPS_AT_A_TIME = 4
WINDOW = 20
POLL_S = 0.05
INSERT = "INSERT INTO enriched (id, k, name, city, tier) VALUES (%s, %s, %s, %s, %s)"


async def connect(url):
    """A connection without autocommit."""
    place = urlsplit(url)
    return await asyncmy.connect(
        host=place.hostname,
        port=place.port,
        user=place.username,
        password=place.password,
        db=place.path.strip("/"),
        autocommit=False,
    )


async def windows(path, position):
    """The windows of complete lines from `position` on: where each begins and ends, and its orders."""
    with open(path, "rb") as file:
        file.seek(position)
        while True:
            start, orders = file.tell(), []
            while len(orders) < WINDOW:
                before, line = file.tell(), file.readline()
                order = json.loads(line) if line.endswith(b"\n") else None
                if order is None or "end" in order:  # no whole line yet, or the one that ends the file
                    file.seek(before)
                    break
                orders.append(order)
            if orders:
                yield start, file.tell(), orders
            elif order is not None:
                return
            else:
                await asyncio.sleep(POLL_S)


async def consume(answers):
    """Rows and position in one transaction; any error ends the program, to be restarted."""
    sink = await connect(os.environ["WAREHOUSE_URL"])
    pool = asyncio.Queue()
    for _ in range(LOOKUPS_AT_A_TIME):
        pool.put_nowait(await connect(os.environ["CUSTOMERS_URL"]))

    async def lookup(order):
        customers = await pool.get()
        try:
            async with customers.cursor() as cursor:
                await cursor.execute("SELECT name, city, tier FROM customer WHERE k = %s", (order["key"],))
                found = await cursor.fetchone()
        except BaseException:  # a cancelled query's answer would be the next one's
            customers.close()
            customers = await connect(os.environ["CUSTOMERS_URL"])
            raise
        finally:
            pool.put_nowait(customers)
        return (order["id"], order["key"], *(found or (None, None, None)))

    async with sink.cursor() as cursor:
        await cursor.execute("SELECT position FROM progress WHERE source = 'orders'")
        (position,) = await cursor.fetchone()
    await sink.commit()
    async for start, end, orders in windows(os.environ["ORDERS_FILE"], position):
        rows = await answers(orders, lookup)
        async with sink.cursor() as cursor:
            moved = await cursor.execute(
                "UPDATE progress SET position = %s WHERE source = 'orders' AND position = %s", (end, start)
            )
            if moved != 1:
                raise SystemExit("the position is not where this instance left it: another one has moved it")
            await cursor.executemany(INSERT, rows)
        await sink.commit()
