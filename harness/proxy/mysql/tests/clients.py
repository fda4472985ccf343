"""Clients of a real database behind a link of ours, and what the database says of them past every proxy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import pymysql
import pytest

from harness.proxy.mysql.tests.threaded_link import ThreadedLink
from harness.system.clock import Deadline, wait_until
from harness.world.world import DATABASE, World

Client: TypeAlias = "pymysql.Connection[Any]"


@contextmanager
def connected(world: World, link: ThreadedLink, *, read_timeout: float = 1.0) -> Iterator[Client]:
    opened = connect(world, link, read_timeout=read_timeout)
    try:
        yield opened
    finally:
        if opened.open:
            opened.close()


def connect(world: World, link: ThreadedLink, *, read_timeout: float = 1.0) -> Client:
    return pymysql.connect(
        host="127.0.0.1",
        port=link.port,
        user=world.app.user,
        password=world.app.password,
        database=DATABASE,
        connect_timeout=10,
        read_timeout=read_timeout,
        ssl_disabled=True,
    )


def run(client: Client, sql: str) -> list[tuple[Any, ...]]:
    with client.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def stored(world: World, table: str) -> list[int]:
    """Past every proxy."""
    with world.server.root() as root:
        return [n for (n,) in run(root, f"SELECT n FROM {table} ORDER BY n")]


def sessions(world: World) -> int:
    """Of the application's user, as the server counts them."""
    with world.server.root() as root:
        listed = run(root, "SHOW PROCESSLIST")
    return sum(1 for session in listed if session[1] == world.app.user)


def wait_for_sessions(world: World, count: int) -> None:
    assert wait_until(lambda: sessions(world) == count, deadline=Deadline(60)), sessions(world)


def code_of(error: pytest.ExceptionInfo[BaseException]) -> Any:
    return error.value.args[0]
