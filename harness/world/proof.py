"""Proves that a database can be used: `SELECT 1`, as the user, by the path that the user takes.

An open port proves nothing: a proxy accepts before it has dialled, and a stopped server accepts too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

import pymysql

from harness.world.world import DATABASE, Address, Credentials

TRY_LIMIT_S = 2.0
"""Limit of one attempt, for the connect and for each answer."""


def open_connection(
    address: Address, who: Credentials, *, database: str | None = DATABASE, limit_s: float = TRY_LIMIT_S
) -> pymysql.connections.Connection[Any]:
    """A connection whose waits are all bounded."""
    return pymysql.connect(
        host=address.host,
        port=address.port,
        user=who.user,
        password=who.password,
        database=database,
        ssl_disabled=True,
        autocommit=True,
        connect_timeout=limit_s,
        read_timeout=limit_s,
        write_timeout=limit_s,
    )


def ask(
    address: Address, who: Credentials, *statements: str, database: str | None = DATABASE
) -> Sequence[Any]:
    """Run the statements on a new connection; returns the rows of the last one."""
    with (
        closing(open_connection(address, who, database=database)) as connection,
        connection.cursor() as cursor,
    ):
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


def proof_of(ways: Mapping[str, Address], who: Credentials) -> tuple[Callable[[], bool], Callable[[], str]]:
    """A condition that holds once every path answers `SELECT 1`, and a function that says what failed last."""
    missing = dict(ways)
    last: list[str] = []

    def holds() -> bool:
        for way in list(missing):
            try:
                answer = ask(missing[way], who, "SELECT 1")
            except (pymysql.MySQLError, OSError) as error:
                last[:] = [f"{way} at port {missing[way].port}: {error}"]
                return False
            if [tuple(row) for row in answer] != [(1,)]:
                last[:] = [f"{way} answered {answer!r} to SELECT 1"]
                return False
            del missing[way]
        return True

    return holds, lambda: last[0] if last else "nothing was tried yet"
