"""Wrong: takes whatever stands behind its position; a row that is committed after one behind it is never read."""

import asyncio

from from_table import consume

asyncio.run(consume(lambda _position, rows: rows))
