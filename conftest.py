"""Loads this tree's own pytest plugin, and fits the limits of time to the machine: a busy one fails no test.

Each phase of a test has a limit of its own, so that the start of a server or of a JVM in a fixture does not count into
the test that needs it first. A test that reaches its limit fails alone, and its session goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import pytest_timeout
from hypothesis import settings

from tools.calibration import slowness

# The entry point has the name of its module, so that pytest loads it once (docs/decisions/0004).
pytest_plugins = ["pytest_floodmark"]

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

_SET_UP_S = 300.0
"""Servers, a JVM and a cluster start here, one after the other."""
_TEAR_DOWN_S = 120.0
_SLOWNESS = pytest.StashKey[float]()


def pytest_configure(config: pytest.Config) -> None:
    """Measure the machine; from then on every limit is that much longer."""
    config.stash[_SLOWNESS] = slowness()


def pytest_report_header(config: pytest.Config) -> str:
    """Say how much longer they are."""
    return f"limits: {config.stash[_SLOWNESS]:.1f} times as long, by tools/calibration.py"


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool:
    """The limit of a marker or of pyproject.toml, for the machine as it is."""
    scaled = settings._replace(timeout=settings.timeout * item.config.stash[_SLOWNESS])
    pytest_timeout.pytest_timeout_set_timer(item, scaled)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Limit what fixtures do."""
    with _limit(item, _SET_UP_S):
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Limit what ends with the test."""
    with _limit(item, _TEAR_DOWN_S):
        yield


@contextmanager
def _limit(item: pytest.Item, seconds: float) -> Iterator[None]:
    """A limit on a phase that is not the test's own, which pytest-timeout limits (`timeout_func_only`)."""
    of_session = pytest_timeout.get_env_settings(item.config)
    if of_session.timeout:  # 0: a person debugs
        item.ihook.pytest_timeout_set_timer(item=item, settings=of_session._replace(timeout=seconds))
    try:
        yield
    finally:
        item.ihook.pytest_timeout_cancel_timer(item=item)
