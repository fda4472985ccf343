"""A right consumer by any client: windows of a file's records, with the rows and the position in one transaction.

python clients.py asyncmy|aiomysql|connector|sqlalchemy|pymysql|mixed
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

WINDOW = 10
FOUND = "SELECT name, city, tier FROM customer WHERE k = %s"
ROW = "INSERT INTO enriched (id, k, name, city, tier) VALUES (%s, %s, %s, %s, %s)"
MOVE = "UPDATE progress SET position = %s WHERE source = 'orders' AND position = %s"


def place(link):
    at = urlsplit(os.environ[f"FLOODMARK_JOB_{link}_URL"])
    return {
        "host": at.hostname, "port": at.port, "user": at.username, "password": at.password,
        "database": at.path.strip("/"),
    }  # fmt: skip


class Blocking:
    """PyMySQL, in the loop's thread."""

    async def open(self, link):
        import pymysql

        self.connection = pymysql.connect(**place(link), autocommit=False, ssl_disabled=True)

    async def ask(self, sql, *args):
        with self.connection.cursor() as cursor:
            self.count = cursor.execute(sql, args)
            return cursor.fetchall()

    async def commit(self):
        self.connection.commit()


class Asyncmy(Blocking):
    async def open(self, link):
        import asyncmy

        self.connection = await asyncmy.connect(**place(link), autocommit=False)

    async def ask(self, sql, *args):
        async with self.connection.cursor() as cursor:
            self.count = await cursor.execute(sql, args)
            return await cursor.fetchall()

    async def commit(self):
        await self.connection.commit()


class Aiomysql(Asyncmy):
    async def open(self, link):
        import aiomysql

        at = place(link)
        self.connection = await aiomysql.connect(db=at.pop("database"), **at, autocommit=False)


class Connector(Asyncmy):
    async def open(self, link):
        from mysql.connector import aio

        self.connection = await aio.connect(**place(link), autocommit=False, ssl_disabled=True)

    async def ask(self, sql, *args):
        cursor = await self.connection.cursor()
        await cursor.execute(sql, args)
        self.count = cursor.rowcount
        rows = await cursor.fetchall() if cursor.with_rows else []
        await cursor.close()
        return rows


class SqlAlchemy(Blocking):
    async def open(self, link):
        from sqlalchemy.ext.asyncio import create_async_engine

        at = place(link)
        url = "mysql+asyncmy://{user}:{password}@{host}:{port}/{database}".format(**at)
        self.connection = await create_async_engine(url).connect()

    async def ask(self, sql, *args):
        found = await self.connection.exec_driver_sql(sql, args or None)
        self.count = found.rowcount
        return found.fetchall() if found.returns_rows else []

    async def commit(self):
        await self.connection.commit()


CLIENTS = {
    "asyncmy": (Asyncmy, Asyncmy),
    "aiomysql": (Aiomysql, Aiomysql),
    "connector": (Connector, Connector),
    "sqlalchemy": (SqlAlchemy, SqlAlchemy),
    "pymysql": (Blocking, Blocking),
    "mixed": (Asyncmy, Blocking),
}


async def main(kind):
    lookups, sink = (made() for made in CLIENTS[kind])
    await lookups.open("LOOKUPS")
    await sink.open("SINK")
    ((position,),) = await sink.ask("SELECT position FROM progress WHERE source = 'orders'")
    await sink.commit()
    with Path(os.environ["FLOODMARK_JOB_SOURCE_FILE"]).open() as file:
        file.seek(position)
        while True:
            start = behind = file.tell()
            orders, is_last = [], False
            while len(orders) < WINDOW and (line := file.readline()).endswith("\n"):
                order = json.loads(line)
                if is_last := "end" in order:
                    break
                orders.append(order)
                behind = file.tell()
            if orders:
                rows = [(one, *(await lookups.ask(FOUND, one["key"]))) for one in orders]
                await sink.ask(MOVE, behind, start)
                if sink.count != 1:
                    sys.exit("another start has moved the position")
                for one, found in rows:
                    await sink.ask(ROW, one["id"], one["key"], *found)
                await sink.commit()
            if is_last:
                return
            if not orders and kind == "pymysql":
                time.sleep(0.05)
            elif not orders:
                await asyncio.sleep(0.05)


asyncio.run(main(sys.argv[1]))
