"""Fixtures of the harness's own tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.tests.real_world import real_world
from harness.world.world import World


@pytest.fixture(scope="session")
def world() -> Iterator[World]:
    """A local world for all whole runs, one after the other; each heals what it armed."""
    with real_world("local", needs=frozenset({"packets"})) as opened:
        yield opened
