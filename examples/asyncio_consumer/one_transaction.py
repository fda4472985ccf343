"""Wrong: the rows and the new position in one transaction, whatever the old position is by then.

The textbook's "exactly once". A COMMIT that arrives after its sender's death, and after its successor has read the old
position, writes the window; the successor writes it again.
"""

import asyncio

from orders import INSERT, consume


async def commit(sink, window, rows) -> None:
    async with sink.cursor() as cursor:
        await cursor.executemany(INSERT, rows)
        await cursor.execute("UPDATE progress SET position = %s WHERE source = 'orders'", (window.end,))
    await sink.commit()


asyncio.run(consume(commit))
