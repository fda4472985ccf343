"""Fixtures of the harness's own tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.scenario.model import Scenario
from harness.scenario.outcome import RunOutcome
from harness.tests.real_world import real_world
from harness.tests.whole_run import links_are_free, whole_run
from harness.world.world import World


@pytest.fixture(scope="session")
def world() -> Iterator[World]:
    """A local world for all whole runs, one after the other; each heals what it armed."""
    with real_world("local", needs=frozenset({"packets"})) as opened:
        yield opened


@pytest.fixture
def performed(world: World, tmp_path: Path) -> Iterator[Callable[..., RunOutcome]]:
    """Runs a scenario in the shared world; afterwards nothing of it may act on a link."""

    def run(scenario: Scenario, **order: Any) -> RunOutcome:
        return whole_run(scenario, world=world, within=tmp_path, **order)

    yield run
    assert links_are_free(world)
