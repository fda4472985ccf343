"""Fixtures of the worlds' tests: private places, and real worlds of both kinds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import WorldError
from harness.world.ledger import Ledger
from harness.world.opening import choose_world, open_world
from harness.world.places import Places
from harness.world.settings import WorldSettings
from harness.world.world import World


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """Empty places of this test's own."""
    made = Places(root=tmp_path / "cache")
    made.make()
    return made


@pytest.fixture
def ledger(places: Places) -> Iterator[Ledger]:
    """An open ledger that this process owns."""
    opened = Ledger.open(places)
    yield opened
    opened.close(no_engine)


@pytest.fixture(params=["local", "containers"])
def kind(request: pytest.FixtureRequest) -> str:
    """A kind of world that can be opened here; others are skipped with what they lack."""
    chosen: str = request.param
    require_world(chosen, WorldSettings.from_environment())
    return chosen


@pytest.fixture
def own_settings(tmp_path: Path) -> WorldSettings:
    """Settings whose runs and ports are this test's own, with the programs of the real cache."""
    real = WorldSettings.from_environment()
    own = Places(root=tmp_path / "own")
    own.root.mkdir()
    for shared in ("servers", "bin", "datadirs"):
        (real.places.root / shared).mkdir(parents=True, exist_ok=True)
        (own.root / shared).symlink_to(real.places.root / shared)
    own.make()
    return replace(real, places=own)


@pytest.fixture(scope="module", params=["local", "containers"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A world, shared by a module's tests: each leaves it as it found it."""
    require_world(request.param, WorldSettings.from_environment())
    with open_world(request.param, announce=print, offline=True) as opened:
        yield opened


def require_world(kind: str, settings: WorldSettings) -> None:
    """Skip with the reason where a kind of world cannot be opened; on a build machine that is a failure."""
    try:
        choose_world(kind, settings=settings, offline=True, say=print)
    except WorldError as lacking:
        if kind == "containers" and os.environ.get("FLOODMARK_REQUIRE_CONTAINERS"):
            pytest.fail(f"containers are required here, but: {lacking}")
        pytest.skip(str(lacking))


def no_engine(run_id: str) -> list[str]:
    """An engine sweep for tests that have no containers: being asked is a failure."""
    raise AssertionError(f"run {run_id} made no containers")
