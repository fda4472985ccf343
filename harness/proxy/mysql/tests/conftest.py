"""Fixtures: a real server of each kind: MariaDB as a process, MySQL in a container."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.proxy.mysql.tests.clients import Client, connected, run
from harness.proxy.mysql.tests.threaded_link import ThreadedLink, threaded_link
from harness.tests.real_world import real_world
from harness.world.world import DATABASE, World


@pytest.fixture(scope="module", params=["local", "containers"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A world of this kind, or a skip with what this machine lacks; its own proxy is not used here."""
    with real_world(request.param) as opened:
        yield opened


@pytest.fixture(scope="module")
def prepared(world: World) -> Iterator[str]:
    """A table of the application's, for a module's tests."""
    name = f"`{DATABASE}`.`rows_of_packets`"
    with world.server.root() as root, root.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {name} (n INT PRIMARY KEY)")
        yield name
        cursor.execute(f"DROP TABLE {name}")


@pytest.fixture
def table(world: World, prepared: str) -> str:
    """That table, empty."""
    with world.server.root() as root:
        run(root, f"DELETE FROM {prepared}")
        root.commit()
    return prepared


@pytest.fixture
def link(world: World) -> Iterator[ThreadedLink]:
    """A link of ours before the server, which knows that MySQL is spoken."""
    with threaded_link(world.direct) as opened:
        yield opened


@pytest.fixture
def client(world: World, link: ThreadedLink) -> Iterator[Client]:
    """A client of that link, with autocommit off."""
    with connected(world, link) as opened:
        yield opened
