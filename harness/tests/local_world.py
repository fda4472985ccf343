"""A local world for tests, or a skip with what this machine lacks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness.errors import WorldError
from harness.world.opening import choose_world, open_world
from harness.world.settings import WorldSettings
from harness.world.world import World

__all__ = ["local_world"]


@contextmanager
def local_world() -> Iterator[World]:
    """A world of processes, while the block lasts; the test is skipped where none can be had."""
    settings = WorldSettings.from_environment()
    try:
        choose_world("local", settings=settings, offline=True, say=print)
    except WorldError as lacking:
        pytest.skip(str(lacking))
    with open_world("local", announce=print, offline=True, settings=settings) as world:
        yield world
