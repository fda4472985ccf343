"""What asyncmy answers to each operation: in virtual time, and asked directly. A program, for a version of its own.

    python -m harness.levels.sim.tests.asyncmy_operations

prints a JSON object: `version`, `virtual` and `direct`, which are lists of [operation, answer].
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import closing
from importlib.metadata import version
from typing import Any

import asyncmy
from asyncmy.cursors import SSCursor
from asyncmy.errors import MySQLError

from harness.database.endpoint import Endpoint
from harness.engine.level import Opening
from harness.levels.sim.real_tables import real_tables
from harness.levels.sim.tests.test_real_clients import CALM, ROWS
from harness.levels.sim.tests.wired_clients import Wired, play


async def operations(at: Endpoint) -> list[tuple[str, Any]]:
    """Each operation of D1, on connections to `at`, with its answer or error."""
    found: list[tuple[str, Any]] = []
    options: dict[str, Any] = {
        "host": at.host, "port": at.port, "user": at.user, "password": at.password, "database": at.database,
    }  # fmt: skip

    async def ask(connection: Any, sql: str, *args: object) -> list[Any]:
        async with connection.cursor() as cursor:
            await cursor.execute(sql, args or None)
            return list(await cursor.fetchall())

    with closing(await asyncmy.connect(**options, autocommit=True)) as connection:
        found.append(("ask", await ask(connection, "SELECT name FROM customer WHERE k = %s", 3)))
        try:
            await ask(connection, "SELECT 1 FROM nowhere")
        except MySQLError as error:
            found.append(("error", error.args[0]))
        async with connection.cursor(SSCursor) as cursor:
            await cursor.execute("SELECT k FROM customer ORDER BY k")
            found.append(("stream", [await cursor.fetchone(), *await cursor.fetchall()]))
        if hasattr(connection, "prepare"):
            statement = await connection.prepare("SELECT name FROM customer WHERE k = ?")
            found.append(("prepare", list((await statement.execute((2,))).rows[0])))
    connection = await asyncmy.connect(**options, autocommit=True)
    try:
        async with asyncio.timeout(0.05):
            await ask(connection, "SELECT 'late', SLEEP(0.2)")
    except TimeoutError:
        try:
            found.append(("cancel", await ask(connection, "SELECT 'next'")))
        except Exception as error:  # noqa: BLE001 - newer versions have closed it
            found.append(("cancel", type(error).__name__))
    connection.close()
    pool = await asyncmy.create_pool(**options, autocommit=True, minsize=1, maxsize=2)

    async def lent(key: int) -> Any:
        async with pool.acquire() as connection:
            return await ask(connection, "SELECT name FROM customer WHERE k = %s", key)

    found.append(("pool", await asyncio.gather(*[lent(key) for key in range(1, len(ROWS) + 1)])))
    pool.close()
    await pool.wait_closed()
    return found


def main() -> None:
    virtual: list[Any] = []

    async def script(wired: Wired) -> None:
        virtual.extend(await operations(wired.at))

    with real_tables(Opening(world="local")) as tables:
        tables.fill(CALM, ROWS)
        play(tables, script)
        direct = asyncio.run(operations(tables.at()))  # noqa: TID251 - asyncio's own loop is what is compared with
    json.dump({"version": version("asyncmy"), "virtual": virtual, "direct": direct}, sys.stdout)


if __name__ == "__main__":
    main()
