"""Wrong: each task appends in a transaction of its own; one that dies after its COMMIT runs again."""

import os

from orders import COLUMNS, connect, enrich, run

WAREHOUSE, CUSTOMERS = os.environ["WAREHOUSE_URL"], os.environ["CUSTOMERS_URL"]


def load(orders) -> None:
    with connect(WAREHOUSE) as sink, sink.cursor() as cursor:
        cursor.executemany(f"INSERT INTO {COLUMNS}", list(enrich(orders, url=CUSTOMERS)))
        sink.commit()


run(load)
