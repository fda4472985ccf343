"""What both variants do alike: read orders from a folder, look up each one's customer, and write its row."""

import json
import os
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pymysql
from pyflink.common import Configuration, Duration, WatermarkStrategy
from pyflink.datastream import MapFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSource, StreamFormat


def connect(url: str) -> pymysql.Connection:
    """A connection with autocommit."""
    place = urlsplit(url)
    return pymysql.connect(
        host=place.hostname,
        port=place.port,
        user=place.username,
        password=place.password,
        database=place.path.strip("/"),
        autocommit=True,
    )


class Enrich(MapFunction):
    """Looks up the customer of an order and writes the row with `statement`."""

    def __init__(self, statement: str) -> None:
        self.statement = statement

    def open(self, _context):
        self.customers = connect(os.environ["CUSTOMERS_URL"])
        self.sink = connect(os.environ["WAREHOUSE_URL"])

    def map(self, line):
        order = json.loads(line)
        with self.customers.cursor() as cursor:
            cursor.execute("SELECT name, city, tier FROM customer WHERE k = %s", (order["key"],))
            found = cursor.fetchone() or (None, None, None)
        with self.sink.cursor() as cursor:
            cursor.execute(self.statement, (order["id"], order["key"], *found))
        return order["id"]

    def close(self):
        self.customers.close()
        self.sink.close()


def newest_checkpoint(folder: Path) -> Path | None:
    """The last completed checkpoint of all starts of this job."""
    completed = folder.glob("*/chk-*/_metadata")
    return max((file.parent for file in completed), key=lambda found: found.stat().st_mtime, default=None)


def run(statement: str) -> None:
    """The job, until somebody stops it, from the newest checkpoint."""
    checkpoints = Path(os.environ["CHECKPOINTS"])
    settings = Configuration()
    settings.set_string("python.executable", sys.executable)
    settings.set_string("python.client.executable", sys.executable)
    settings.set_string("execution.checkpointing.interval", "500ms")
    settings.set_string("execution.checkpointing.dir", checkpoints.as_uri())
    settings.set_string("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION")
    if newest := newest_checkpoint(checkpoints):
        settings.set_string("execution.state-recovery.path", newest.as_uri())
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    env.set_parallelism(1)
    folder = FileSource.for_record_stream_format(
        StreamFormat.text_line_format(), os.environ["ORDERS_FOLDER"]
    ).monitor_continuously(Duration.of_millis(200))
    lines = env.from_source(folder.build(), WatermarkStrategy.no_watermarks(), "orders")
    lines.map(Enrich(statement)).print()
    env.execute("orders")
