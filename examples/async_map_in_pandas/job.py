"""Right: an error of a lookup fails the batch; the program ends, is started again, and its batch runs again."""

import asyncio

from orders import customers, run


async def lookups(*, input_values, parameters, **_):
    """The rows of a chunk, in the order of the source."""
    async with customers(parameters) as ask:
        for row in await asyncio.gather(*map(ask, input_values)):
            yield row


run(lookups)
