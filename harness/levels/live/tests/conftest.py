"""Whole runs at level `live` with one fault each, in a world that all tests of the folder share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.history.merge import read_leftovers
from harness.history.notes import Line
from harness.scenario.model import Scenario
from harness.scenario.outcome import RunOutcome
from harness.tests.real_world import real_world
from harness.tests.whole_run import whole_run
from harness.world.world import World

Performed = Callable[..., tuple[RunOutcome, tuple[Line, ...]]]


@pytest.fixture(scope="session")
def live_world() -> Iterator[World]:
    """A local world for all runs of this folder."""
    with real_world("local") as opened:
        yield opened


@pytest.fixture
def performed(live_world: World, tmp_path: Path) -> Performed:
    """Runs a scenario; what came of it, and every line that was recorded."""

    def run(scenario: Scenario, *, seed: int = 7, **order: Any) -> tuple[RunOutcome, tuple[Line, ...]]:
        outcome = whole_run(scenario, world=live_world, within=tmp_path, seed=seed, **order)
        return outcome, read_leftovers(outcome.history.parent / "raw").lines

    return run
