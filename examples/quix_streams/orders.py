"""What both variants do alike: read orders from a topic, look up their customers, hand batches to a sink."""

import os
from urllib.parse import urlsplit

import pymysql
from quixstreams import Application
from quixstreams.sinks import BatchingSink, SinkBatch


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


class Enriched(BatchingSink):
    """Writes what came since the last checkpoint by `write(cursor, batch)`, in one transaction."""

    def __init__(self, write) -> None:
        super().__init__()
        self.transaction = write

    def setup(self) -> None:
        self.sink = connect(os.environ["WAREHOUSE_URL"])

    def write(self, batch: SinkBatch) -> None:
        with self.sink.cursor() as cursor:
            self.transaction(cursor, batch)
        self.sink.commit()


def run(write) -> None:
    """The application, until somebody stops it; Quix commits its offsets after the sink has written."""
    customers = connect(os.environ["CUSTOMERS_URL"])
    customers.autocommit(True)

    def enrich(order: dict) -> tuple:
        with customers.cursor() as cursor:
            cursor.execute("SELECT name, city, tier FROM customer WHERE k = %s", (order["key"],))
            return (order["id"], order["key"], *(cursor.fetchone() or (None, None, None)))

    app = Application(
        broker_address=os.environ["KAFKA_SERVERS"],
        consumer_group="orders",
        auto_offset_reset="earliest",
        commit_every=20,
        consumer_extra_config={"session.timeout.ms": 6000},
        state_dir=os.environ["STATE"],
    )
    orders = app.topic(os.environ["ORDERS_TOPIC"], value_deserializer="json")
    app.dataframe(orders).apply(enrich).sink(Enriched(write))
    app.run()
