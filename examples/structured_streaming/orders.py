"""What every variant does alike: read orders as a stream, and look up their customers in the executors."""

import os
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import urlsplit

import pymysql
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.functions import col, from_json

ORDER = "id BIGINT, key BIGINT, ts BIGINT"
INSERT = "INSERT INTO enriched (id, k, name, city, tier) VALUES (%s, %s, %s, %s, %s)"


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


def read_orders(spark: SparkSession) -> DataFrame:
    """The orders of a folder, one file a batch; or those of a Kafka topic, if one is named."""
    if "ORDERS_TOPIC" not in os.environ:
        return (
            spark.readStream.schema(ORDER).option("maxFilesPerTrigger", 1).json(os.environ["ORDERS_FOLDER"])
        )
    topic = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", os.environ["KAFKA_SERVERS"])
        .option("subscribe", os.environ["ORDERS_TOPIC"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 20)
    )
    order = from_json(col("value").cast("string"), ORDER).alias("order")
    return topic.load().select(order).select("order.*")


def enrich(orders: Iterable[Row], *, url: str) -> Iterator[tuple[object, ...]]:
    """Each order of a partition with its customer, as a row of the sink."""
    with connect(url) as customers, customers.cursor() as cursor:
        for order in orders:
            cursor.execute("SELECT name, city, tier FROM customer WHERE k = %s", (order.key,))
            yield (order.id, order.key, *(cursor.fetchone() or (None, None, None)))


def run(write: Callable[[DataFrame, int], None]) -> None:
    """Hand each batch and its number to `write`, until somebody stops the program."""
    spark = (
        SparkSession.builder.appName("orders")
        .master(os.environ.get("SPARK_MASTER", "local[2]"))
        .config("spark.sql.shuffle.partitions", 2)
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.addPyFile(__file__)  # executors on other hosts need this module
    query = (
        read_orders(spark)
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", os.environ["CHECKPOINT"])
        .start()
    )
    query.awaitTermination()
