"""pypeln, `task.map`: as the answers come."""

import asyncio

import pypeln
from asyncmy.errors import MySQLError
from consumer import LOOKUPS_AT_A_TIME, consume


async def answers(orders, lookup):
    async def ask(order):
        try:
            return await lookup(order)
        except (
            MySQLError,
            OSError,
        ) as error:  # pypeln drops what a task raises unless it is among the last to end
            return error

    rows = [row async for row in pypeln.task.map(ask, orders, workers=LOOKUPS_AT_A_TIME)]
    for row in rows:
        if isinstance(row, MySQLError | OSError):
            raise row
    return rows


asyncio.run(consume(answers))
