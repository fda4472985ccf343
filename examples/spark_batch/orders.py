"""What both variants do alike: wait for the orders of the day, and look up their customers in the executors."""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pymysql
from pyspark.sql import Row, SparkSession

ORDER = "id BIGINT, key BIGINT, ts BIGINT"
COLUMNS = "enriched (id, k, name, city, tier) VALUES (%s, %s, %s, %s, %s)"


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


def enrich(orders: Iterable[Row], *, url: str) -> Iterator[tuple[object, ...]]:
    """Each order of a partition with its customer, as a row of the sink."""
    with connect(url) as customers, customers.cursor() as cursor:
        for order in orders:
            cursor.execute("SELECT name, city, tier FROM customer WHERE k = %s", (order.key,))
            yield (order.id, order.key, *(cursor.fetchone() or (None, None, None)))


def run(load: Callable[[Iterable[Row]], None]) -> None:
    """Hand the orders to `load`, a partition a task, once the folder is complete."""
    folder = Path(os.environ["ORDERS_FOLDER"])
    while not (folder / "_END").exists():
        time.sleep(0.1)
    spark = (
        SparkSession.builder.appName("orders of the day")
        .master(os.environ.get("SPARK_MASTER", "local[2,4]"))
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.addPyFile(__file__)  # executors on other hosts need this module
    spark.read.schema(ORDER).json(str(folder)).repartition(8, "key").foreachPartition(load)
    spark.stop()
