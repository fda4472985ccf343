"""Right, from a Kafka topic: rows and position in one transaction, which fails if the position has been moved."""

import asyncio
import json
import os

from aiokafka import AIOKafkaConsumer
from orders import INSERT, WINDOW, connect, enrich, saved_position

MOVE = "UPDATE progress SET position = %s WHERE source = %s AND position = %s"


async def main() -> None:
    sink = await connect(os.environ["WAREHOUSE_URL"])
    customers = await connect(os.environ["CUSTOMERS_URL"])
    topic = os.environ["ORDERS_TOPIC"]
    # Without a group: it gets all partitions, and its positions are ours to keep.
    async with AIOKafkaConsumer(topic, bootstrap_servers=os.environ["KAFKA_SERVERS"]) as consumer:
        parts = consumer.assignment()
        positions = {part: await saved_position(sink, f"{topic}/{part.partition}") for part in parts}
        for part, position in positions.items():
            consumer.seek(part, position)
        while True:
            for part, messages in (await consumer.getmany(timeout_ms=500, max_records=WINDOW)).items():
                rows = [await enrich(customers, json.loads(message.value)) for message in messages]
                await commit(sink, part, positions[part], messages[-1].offset + 1, rows)
                positions[part] = messages[-1].offset + 1


async def commit(sink, part, start, end, rows) -> None:
    source = f"{part.topic}/{part.partition}"
    async with sink.cursor() as cursor:
        if start == 0:
            await cursor.execute("INSERT IGNORE INTO progress VALUES (%s, 0)", (source,))
        if await cursor.execute(MOVE, (end, source, start)) != 1:
            raise SystemExit("the position is not where this instance left it: another one has moved it")
        await cursor.executemany(INSERT, rows)
    await sink.commit()


asyncio.run(main())
