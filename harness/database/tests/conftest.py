"""Fixtures of the database's tests: one local world, and a run's database of each test's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

from harness.database.endpoint import Endpoint, connect
from harness.database.schema import prepare_database, run_database
from harness.tests.real_world import real_world
from harness.world.world import ProxyControl, World

ROWS = [[key, f"name {key}", f"city {key}", 1 + key % 5] for key in range(20)]
_numbers = count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDatabase:
    """A prepared database of two subtasks, and the ways to it."""

    root: Endpoint
    """Past the proxy, as who may do anything."""
    lookups: Endpoint
    sink: Endpoint
    proxy: ProxyControl

    def rows(self, sql: str) -> list[Any]:
        """What the server itself answers."""
        with connect(self.root) as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def execute(self, sql: str, rows: list[Any]) -> None:
        """Write `rows` past everything."""
        with connect(self.root) as connection, connection.cursor() as cursor:
            cursor.executemany(sql, rows)
            connection.commit()


@pytest.fixture(scope="session")
def world() -> Iterator[World]:
    """A local world."""
    with real_world("local") as opened:
        yield opened


@pytest.fixture
def database(world: World) -> Iterator[RunDatabase]:
    """As a run prepares it; the links are healed afterwards, whatever a test did to them."""
    name = f"floodmark_test_{next(_numbers)}"
    with run_database(world.root.at(world.direct, ""), name=name):
        made = RunDatabase(
            root=world.root.at(world.direct, name),
            lookups=world.app.at(world.links["lookups"], name),
            sink=world.app.at(world.links["sink"], name),
            proxy=world.proxy,
        )
        prepare_database(made.root, subtasks=2, rows=ROWS)
        yield made
        for link in world.links:
            for toxic in world.proxy.toxics(link):
                world.proxy.remove_toxic(link, toxic)
            world.proxy.enable(link)
