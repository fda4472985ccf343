"""Wrong: the executors append their rows; a batch or a task that runs again appends them again."""

import os

from orders import INSERT, connect, enrich, run

WAREHOUSE, CUSTOMERS = os.environ["WAREHOUSE_URL"], os.environ["CUSTOMERS_URL"]


def append(orders) -> None:
    with connect(WAREHOUSE) as sink, sink.cursor() as cursor:
        cursor.executemany(INSERT, list(enrich(orders, url=CUSTOMERS)))
        sink.commit()


def write(batch, _number) -> None:
    batch.foreachPartition(append)


run(write)
