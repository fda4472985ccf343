"""Wrong: the batch's number is written in a second transaction; a death in between writes the batch twice."""

import os
from functools import partial

from orders import INSERT, connect, enrich, run

WAREHOUSE, CUSTOMERS = os.environ["WAREHOUSE_URL"], os.environ["CUSTOMERS_URL"]


def write(batch, number) -> None:
    rows = batch.rdd.mapPartitions(partial(enrich, url=CUSTOMERS)).collect()
    with connect(WAREHOUSE) as sink, sink.cursor() as cursor:
        if cursor.execute("SELECT 1 FROM batches WHERE query = 'orders' AND number = %s", (number,)):
            return
        cursor.executemany(INSERT, rows)
        sink.commit()
        cursor.execute("INSERT INTO batches (query, number) VALUES ('orders', %s)", (number,))
        sink.commit()


run(write)
