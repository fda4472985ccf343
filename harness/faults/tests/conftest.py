"""Real worlds for the database's faults, and what a run would be in them: a database, and clients that use it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from harness.database.schema import prepare_database, run_database
from harness.tests.real_world import real_world
from harness.world.world import World

SUBTASKS = 2
ROWS = [[key, f"name {key}", f"city {key}", 1 + key % 5] for key in range(20)]
ALL_ABILITIES = frozenset({"small-disk", "server-clock"})
_numbers = count(1)


@pytest.fixture(scope="session", params=["local", "containers"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A world with all that its kind can have, shared by all tests: each fault puts everything back."""
    with real_world(request.param, needs=ALL_ABILITIES) as opened:
        yield opened


@pytest.fixture
def database(world: World) -> Iterator[str]:
    """A run's database, prepared as for a run."""
    name = f"floodmark_faults_{next(_numbers)}"
    with run_database(world.root.at(world.direct, ""), name=name):
        prepare_database(world.root.at(world.direct, name), subtasks=SUBTASKS, rows=ROWS)
        yield name
