"""Wrong, and no single kill shows it: the position moves first, and a journal lets the next start make that good.

The next start removes the journal before the rows are committed. Killed in between, it leaves nobody who knows of them.
"""

import asyncio
import json
import os
from pathlib import Path

from orders import INSERT, connect, consume

JOURNAL = Path(os.environ["STATE"]) / "journal.json"


async def commit(sink, window, rows) -> None:
    JOURNAL.write_text(json.dumps(rows))
    async with sink.cursor() as cursor:
        await cursor.execute("UPDATE progress SET position = %s WHERE source = 'orders'", (window.end,))
    await sink.commit()
    await write(sink, rows)
    JOURNAL.unlink()


async def write(sink, rows) -> None:
    """The rows that are not there yet."""
    async with sink.cursor() as cursor:
        for row in rows:
            await cursor.execute("SELECT 1 FROM enriched WHERE id = %s", (row[0],))
            if not await cursor.fetchall():
                await cursor.execute(INSERT, row)
    await sink.commit()


async def main() -> None:
    if JOURNAL.exists():
        rows = json.loads(JOURNAL.read_text())
        JOURNAL.unlink()
        sink = await connect(os.environ["WAREHOUSE_URL"])
        await write(sink, rows)
        sink.close()
    await consume(commit)


asyncio.run(main())
