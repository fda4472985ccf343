"""pypeln, `task.map`, and a limit around each lookup: the record whose lookup takes longer is gone, without an error.

pypeln's `TaskPool.get_task` ends every `TimeoutError` with `pass`, be it of its own `timeout=` or of the function.
"""

import asyncio

import pypeln
from consumer import LOOKUPS_AT_A_TIME, consume

LIMIT_S = 0.2


async def answers(orders, lookup):
    async def ask(order):
        return await asyncio.wait_for(lookup(order), LIMIT_S)

    return [row async for row in pypeln.task.map(ask, orders, workers=LOOKUPS_AT_A_TIME)]


asyncio.run(consume(answers))
