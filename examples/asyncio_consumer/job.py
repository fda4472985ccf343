"""Right: the rows and the new position in one transaction, which fails if somebody else has moved the position.

Without the comparison, a COMMIT of a dead instance that arrives late is not seen, and the window is written twice.
"""

import asyncio

from orders import INSERT, consume


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


asyncio.run(consume(commit))
