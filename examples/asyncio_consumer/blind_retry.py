"""Wrong: a transaction whose COMMIT was not answered is repeated; it may have been committed."""

import asyncio
import os

from asyncmy.errors import MySQLError
from orders import INSERT, connect, consume

TRIES = 5


async def commit(sink, window, rows) -> None:
    for _ in range(TRIES):
        try:
            async with sink.cursor() as cursor:
                await cursor.executemany(INSERT, rows)
                await cursor.execute(
                    "UPDATE progress SET position = %s WHERE source = 'orders'", (window.end,)
                )
            return await sink.commit()
        except (MySQLError, OSError) as error:
            print(f"trying the window once more: {error}")
            sink = await connect(os.environ["WAREHOUSE_URL"])
    raise SystemExit(f"gave up after {TRIES} tries")


asyncio.run(consume(commit))
