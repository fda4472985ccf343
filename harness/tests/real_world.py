"""A real world for tests, or a skip with what this machine lacks.

Invariant: where `FLOODMARK_REQUIRE_CONTAINERS` is set, a containers world that cannot be had is a failure, not a skip.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness.system.errors import WorldError
from harness.world.settings import WorldSettings
from harness.world.setup.opening import WorldAsked, choose_world, open_world
from harness.world.world import World


@contextmanager
def real_world(kind: str, *, proxy: str = "auto", needs: frozenset[str] = frozenset()) -> Iterator[World]:
    """A world of this kind with this proxy, while the block lasts; `needs`: what the faults to come need."""
    settings = WorldSettings.from_environment()
    require_world(kind, proxy, settings=settings)
    with open_world(kind, announce=print, proxy=proxy, needs=needs, offline=True, settings=settings) as world:
        yield world


def require_world(kind: str, proxy: str, *, settings: WorldSettings) -> None:
    """Skip with the reason where such a world cannot be opened."""
    try:
        choose_world(kind, WorldAsked(proxy=proxy, settings=settings, offline=True, say=print))
    except WorldError as lacking:
        if kind == "containers" and os.environ.get("FLOODMARK_REQUIRE_CONTAINERS"):
            pytest.fail(f"containers are required here, but: {lacking}")
        pytest.skip(str(lacking))
