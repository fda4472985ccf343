"""pypeln, `task.map`: as the answers come."""

import asyncio

import pypeln
from consumer import LOOKUPS_AT_A_TIME, consume


async def answers(orders, lookup):
    return [row async for row in pypeln.task.map(lookup, orders, workers=LOOKUPS_AT_A_TIME)]


asyncio.run(consume(answers))
