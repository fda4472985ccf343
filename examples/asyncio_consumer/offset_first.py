"""Wrong: the position is saved before the rows; a death in between loses the window."""

import asyncio

from orders import INSERT, consume


async def commit(sink, window, rows) -> None:
    async with sink.cursor() as cursor:
        await cursor.execute("UPDATE progress SET position = %s WHERE source = 'orders'", (window.end,))
        await sink.commit()
        await cursor.executemany(INSERT, rows)
    await sink.commit()


asyncio.run(consume(commit))
