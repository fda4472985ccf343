"""What both variants do alike: read orders as a stream, and look up their customers by asyncio inside `mapInPandas`.

A variant gives `lookups`, which the helper of SparkPipelineFramework runs in the executors, on a loop of its own.
"""

import asyncio
import os
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import asyncmy
import pymysql
from pymysql.err import IntegrityError
from pyspark.sql import SparkSession
from spark_pipeline_framework.utilities.async_pandas_udf.v1.async_pandas_dataframe_udf import (
    AsyncPandasDataFrameUDF,
)

ORDER = "id BIGINT, key BIGINT, ts BIGINT"
ROW = "id BIGINT, k BIGINT, name STRING, city STRING, tier BIGINT"
INSERT = "INSERT INTO enriched (id, k, name, city, tier) VALUES (%s, %s, %s, %s, %s)"
LOOKUPS_AT_A_TIME = 4
CHUNK = 20


def place(url, database):
    """How a driver of MySQL is told where the server is; the database's name has another keyword in each."""
    parts = urlsplit(url)
    return {
        "host": parts.hostname,
        "port": parts.port,
        "user": parts.username,
        "password": parts.password,
        database: parts.path.strip("/"),
    }


@asynccontextmanager
async def customers(url):
    """Gives `ask(order)`, a coroutine that returns the order's row; at most so many of them ask at a time."""
    idle = asyncio.Queue()
    for _ in range(LOOKUPS_AT_A_TIME):
        idle.put_nowait(None)  # connected when it is needed

    async def ask(order):
        connection = await idle.get()
        try:
            connection = connection or await asyncmy.connect(**place(url, "db"))
            async with connection.cursor() as cursor:
                await cursor.execute("SELECT name, city, tier FROM customer WHERE k = %s", (order["key"],))
                name, city, tier = await cursor.fetchone() or (None, None, None)
        except BaseException:
            if connection:
                connection.close()
            connection = None
            raise
        finally:
            idle.put_nowait(connection)
        return {"id": order["id"], "k": order["key"], "name": name, "city": city, "tier": tier}

    try:
        yield ask
    finally:
        while not idle.empty():
            connection = idle.get_nowait()
            if connection:
                connection.close()


def run(lookups):
    """Write each batch's rows and its number in one transaction, until somebody stops the program."""
    helper = AsyncPandasDataFrameUDF(
        async_func=lookups, parameters=os.environ["CUSTOMERS_URL"], batch_size=CHUNK
    )

    def write(batch, number):
        rows = batch.mapInPandas(helper.get_pandas_udf(), schema=ROW).collect()
        with (
            pymysql.connect(**place(os.environ["WAREHOUSE_URL"], "database")) as sink,
            sink.cursor() as cursor,
        ):
            try:
                cursor.execute("INSERT INTO batches (query, number) VALUES ('orders', %s)", (number,))
            except IntegrityError:  # committed by the driver before this one
                return
            cursor.executemany(INSERT, [tuple(row) for row in rows])
            sink.commit()

    spark = (
        SparkSession.builder.appName("orders")
        .master("local[2]")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.addPyFile(__file__)
    orders = spark.readStream.schema(ORDER).option("maxFilesPerTrigger", 1).json(os.environ["ORDERS_FOLDER"])
    query = orders.writeStream.foreachBatch(write).option("checkpointLocation", os.environ["CHECKPOINT"])
    query.start().awaitTermination()
