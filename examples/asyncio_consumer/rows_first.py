"""Wrong: the rows are saved before the position; a death in between writes the window twice."""

import asyncio

from orders import INSERT, consume


async def commit(sink, window, rows) -> None:
    async with sink.cursor() as cursor:
        await cursor.executemany(INSERT, rows)
        await sink.commit()
        await cursor.execute("UPDATE progress SET position = %s WHERE source = 'orders'", (window.end,))
    await sink.commit()


asyncio.run(consume(commit))
