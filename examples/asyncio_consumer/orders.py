"""What every variant of this consumer does alike: read orders from a growing file, and look up their customers."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import asyncmy
from asyncmy.connection import Connection

WINDOW = 20
POLL_S = 0.05
INSERT = "INSERT INTO enriched (id, k, name, city, tier) VALUES (%s, %s, %s, %s, %s)"

Row = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Some lines of the file: the place before them, the place after them, and their orders."""

    start: int
    end: int
    orders: list[dict]


async def connect(url: str) -> Connection:
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


async def saved_position(sink: Connection, source: str = "orders") -> int:
    """How far the file, or a partition of the topic, has been processed."""
    async with sink.cursor() as cursor:
        await cursor.execute("SELECT position FROM progress WHERE source = %s", (source,))
        (position,) = await cursor.fetchone() or (0,)
    await sink.commit()  # ends the snapshot of this read
    return position


async def windows(path: str, position: int) -> AsyncIterator[Window]:
    """The windows of complete lines from `position` on, until the line that ends the file."""
    with open(path, "rb") as file:
        file.seek(position)
        ended = False
        while not ended:
            start, orders = file.tell(), []
            while len(orders) < WINDOW and not ended:
                before, line = file.tell(), file.readline()
                order = json.loads(line) if line.endswith(b"\n") else None
                ended = order is not None and "end" in order
                if order is None or ended:  # no whole line yet, or the one that ends the file
                    file.seek(before)
                    break
                orders.append(order)
            if orders:
                yield Window(start=start, end=file.tell(), orders=orders)
            elif not ended:
                await asyncio.sleep(POLL_S)


async def enrich(customers: Connection, order: dict) -> Row:
    """The order with its customer, as a row of the sink."""
    async with customers.cursor() as cursor:
        await cursor.execute("SELECT name, city, tier FROM customer WHERE k = %s", (order["key"],))
        found = await cursor.fetchone()
    return (order["id"], order["key"], *(found or (None, None, None)))


async def consume(commit, lookup=enrich) -> None:
    """Hand each window and its rows to `commit(sink, window, rows)`; any error ends the program, to be restarted."""
    sink, customers = await asyncio.gather(
        connect(os.environ["WAREHOUSE_URL"]), connect(os.environ["CUSTOMERS_URL"])
    )
    async for window in windows(os.environ["ORDERS_FILE"], await saved_position(sink)):
        rows = [await lookup(customers, order) for order in window.orders]
        await commit(sink, window, rows)
    sink.close()
    customers.close()
