"""aiostream, `map` with `ordered=False`: as the answers come."""

import asyncio

from aiostream import stream
from consumer import LOOKUPS_AT_A_TIME, consume


async def answers(orders, lookup):
    async def ask(order, *_):
        return await lookup(order)

    asked = stream.map(stream.iterate(orders), ask, ordered=False, task_limit=LOOKUPS_AT_A_TIME)
    return await stream.list(asked)


asyncio.run(consume(answers))
