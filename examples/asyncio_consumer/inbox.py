"""Right: takes rows of the table up to the first position that is missing, which a slower writer may still fill.

A position that is never filled, of a writer that rolled back, would stop it; a real job skips one that is old enough.
"""

import asyncio

from from_table import consume


def take(position, rows):
    return [row for number, row in enumerate(rows, start=position) if row[0] == number]


asyncio.run(consume(take))
