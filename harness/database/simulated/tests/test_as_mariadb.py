"""The simulated server answers each script as the real server does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count

import pytest

from harness.database.coordinated_sink import roll_back_branches
from harness.database.endpoint import Endpoint, connect
from harness.database.schema import prepare_database, run_database
from harness.database.simulated.tests.scripts import KEYED_SCRIPTS, SCRIPTS
from harness.database.simulated.tests.two_servers import ROWS, SUBTASKS, on_real, on_simulated, set_up
from harness.tests.real_world import real_world
from harness.world.world import World

pytestmark = pytest.mark.real

_numbers = count(1)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """A local world."""
    with real_world("local") as opened:
        yield opened


@contextmanager
def database(world: World, *, keyed: bool) -> Iterator[tuple[Endpoint, Endpoint]]:
    """A prepared database: the ways of the run's user and of root to it."""
    name = f"floodmark_alike_{next(_numbers)}"
    with run_database(world.root.at(world.direct, ""), name=name):
        root = world.root.at(world.direct, name)
        prepare_database(root, subtasks=SUBTASKS, rows=ROWS, keyed=keyed)
        try:
            yield world.app.at(world.direct, name), root
        finally:
            set_up(root, "SET GLOBAL read_only = 0")
            with closing(connect(root)) as connection, connection.cursor() as cursor:
                roll_back_branches(cursor, name)


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_simulated_server_answers_as_the_real_one(world: World, name: str) -> None:
    simulated = on_simulated(SCRIPTS[name], keyed=False)

    with database(world, keyed=False) as (client, root):
        real = on_real(SCRIPTS[name], client=client, root=root)

    assert simulated == real


@pytest.mark.parametrize("name", KEYED_SCRIPTS)
def test_the_simulated_server_answers_as_the_real_one_where_outputs_have_a_key(
    world: World, name: str
) -> None:
    simulated = on_simulated(KEYED_SCRIPTS[name], keyed=True)

    with database(world, keyed=True) as (client, root):
        real = on_real(KEYED_SCRIPTS[name], client=client, root=root)

    assert simulated == real
