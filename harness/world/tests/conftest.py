"""Fixtures of the worlds' tests: private places, and real worlds of both kinds with either proxy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.tests.real_world import real_world, require_world
from harness.world.ledger import Ledger
from harness.world.settings import Places, WorldSettings
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
    opened = Ledger(places).begin()
    yield opened
    opened.close(no_engine)


KINDS = [(kind, proxy) for kind in ("local", "containers") for proxy in ("own", "toxiproxy")]


@pytest.fixture(params=KINDS, ids="-".join)
def kind(request: pytest.FixtureRequest) -> tuple[str, str]:
    """A kind of world and of proxy that can be opened here; others are skipped with what they lack."""
    chosen: tuple[str, str] = request.param
    require_world(*chosen, settings=WorldSettings.from_environment())
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


@pytest.fixture(scope="module", params=KINDS, ids="-".join)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A world, shared by a module's tests: each leaves it as it found it."""
    kind, proxy = request.param
    with real_world(kind, proxy=proxy) as opened:
        yield opened


def no_engine(run_id: str) -> list[str]:
    """An engine sweep for tests that have no containers: being asked is a failure."""
    raise AssertionError(f"run {run_id} made no containers")
