"""What both variants of this flow do alike: read orders from a growing file, look up customers, write rows."""

import json
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import bytewax.operators as op
import pymysql
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.run import cli_main

WINDOW = 20
POLL = timedelta(milliseconds=50)


def connect(url: str) -> pymysql.Connection:
    """A connection without autocommit."""
    place = urlsplit(url)
    return pymysql.connect(
        host=place.hostname,
        port=place.port,
        user=place.username,
        password=place.password,
        database=place.path.strip("/"),
    )


class OrdersFile(FixedPartitionedSource):
    """A file of JSON lines that grows until a line `{"end": true}`; its place is part of the recovery state."""

    def __init__(self, path: str) -> None:
        self.path = path

    def list_parts(self):
        return ["orders"]

    def build_part(self, _step_id, _part, position):
        return OrdersPartition(self.path, position or 0)


class OrdersPartition(StatefulSourcePartition):
    """Reads windows of complete lines."""

    def __init__(self, path: str, position: int) -> None:
        self.file = open(path, "rb")
        self.file.seek(position)
        self.position = position
        self.idle = False

    def next_batch(self):
        orders = []
        while len(orders) < WINDOW:
            line = self.file.readline()
            if not line.endswith(b"\n"):  # its writer has not finished it, or there is none yet
                break
            order = json.loads(line)
            if "end" in order:
                if not orders:
                    raise StopIteration
                break
            orders.append(order)
            self.position = self.file.tell()
        self.file.seek(self.position)
        self.idle = not orders
        return orders

    def next_awake(self):
        return datetime.now(UTC) + POLL if self.idle else None

    def snapshot(self):
        return self.position

    def close(self):
        self.file.close()


class Enriched(DynamicSink):
    """Writes each batch of rows in a transaction with `statement`."""

    def __init__(self, statement: str) -> None:
        self.statement = statement

    def build(self, _step_id, _worker_index, _worker_count):
        return EnrichedPartition(self.statement)


class EnrichedPartition(StatelessSinkPartition):
    """The writer of one worker."""

    def __init__(self, statement: str) -> None:
        self.statement = statement
        self.sink = connect(os.environ["WAREHOUSE_URL"])

    def write_batch(self, rows):
        with self.sink.cursor() as cursor:
            cursor.executemany(self.statement, rows)
        self.sink.commit()

    def close(self):
        self.sink.close()


def enrich(customers: pymysql.Connection, orders: list[dict]) -> list[tuple]:
    """The orders with their customers, as rows of the sink."""
    rows = []
    with customers.cursor() as cursor:
        for order in orders:
            cursor.execute("SELECT name, city, tier FROM customer WHERE k = %s", (order["key"],))
            rows.append((order["id"], order["key"], *(cursor.fetchone() or (None, None, None))))
    customers.commit()
    return rows


def run(statement: str) -> None:
    """The flow, from where its recovery state says; an epoch ends with each window."""
    state = Path(os.environ["RECOVERY"])
    if not state.exists():
        fresh = state.with_suffix(".fresh")  # a death in between leaves no half-made folder behind
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        init_db_dir(fresh, 1)
        fresh.rename(state)
    customers = connect(os.environ["CUSTOMERS_URL"])
    flow = Dataflow("orders")
    orders = op.input("orders", flow, OrdersFile(os.environ["ORDERS_FILE"]))
    rows = op.flat_map_batch("customers", orders, lambda batch: enrich(customers, batch))
    op.output("enriched", rows, Enriched(statement))
    cli_main(flow, epoch_interval=timedelta(0), recovery_config=RecoveryConfig(state))
