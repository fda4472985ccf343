"""aiostream, `map` as it comes: in the order of the source."""

import asyncio

from aiostream import stream
from consumer import LOOKUPS_AT_A_TIME, consume


async def answers(orders, lookup):
    async def ask(order, *_):
        return await lookup(order)

    return await stream.list(stream.map(stream.iterate(orders), ask, task_limit=LOOKUPS_AT_A_TIME))


asyncio.run(consume(answers))
