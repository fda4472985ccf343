"""Loads this tree's own pytest plugin, says how often Hypothesis tries, and fits limits of time to the machine.

A property is tried twenty times in tier quick and a hundred times in tier sweep (`--hypothesis-profile=thorough`).

Each phase of a test has a limit of its own, so that the start of a server or of a JVM in a fixture does not count into
the test that needs it first. A test that reaches its limit fails alone, and its session goes on.
"""

from __future__ import annotations

import gc
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_timeout
from hypothesis import settings

from tools.calibration import slowness

# The entry point has the name of its module, so that pytest loads it once (docs/decisions/0004).
pytest_plugins = ["pytest_floodmark"]

settings.register_profile("quick", deadline=None, max_examples=20)
settings.register_profile("thorough", deadline=None, max_examples=100)
settings.load_profile("quick")

_SET_UP_S = 300.0
"""Servers, a JVM and a cluster start here, one after the other."""
_TEAR_DOWN_S = 120.0
_AGAIN_S = 120.0
"""Between two signals of one limit: on its way out a test may wait again, as PySpark does for a busy connection."""
_SLOWNESS = pytest.StashKey[float]()
_CANCELLED = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    """Measure the machine; from then on every limit is that much longer."""
    config.stash[_SLOWNESS] = slowness()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Read no scenario file where none can be chosen: without a level its items are `real`."""
    is_of_catalogue = config.rootpath / "scenarios" in collection_path.parents
    leaves_out_real = "not real" in (config.option.markexpr or "")
    return True if is_of_catalogue and leaves_out_real and config.option.floodmark_level is None else None


def pytest_collection_finish() -> None:
    """Collections of garbage pass over what the test modules hold."""
    gc.collect()
    gc.freeze()


def pytest_report_header(config: pytest.Config) -> str:
    """Say how much longer they are."""
    return f"limits: {config.stash[_SLOWNESS]:.1f} times as long, by tools/calibration.py"


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool:
    """The limit of a marker or of pyproject.toml, for the machine as it is."""
    scaled = settings._replace(timeout=settings.timeout * item.config.stash[_SLOWNESS])
    pytest_timeout.pytest_timeout_set_timer(item, scaled)
    fail: Any = signal.getsignal(signal.SIGALRM)
    if callable(fail):  # else the limit is a thread's

        def reached(number: int, frame: Any) -> None:
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
            if _CANCELLED in item.stash or not _cancels_spark_jobs():
                fail(number, frame)
            item.stash[_CANCELLED] = True

        signal.signal(signal.SIGALRM, reached)
    return True


def _cancels_spark_jobs() -> bool:
    """Whether a session of this process had its jobs cancelled, which ends the test with Spark's own error.

    To leave Python's wait for the JVM by force would give the session's next command the reply to this one.
    """
    spark = sys.modules.get("pyspark")
    context = None if spark is None else spark.SparkContext._active_spark_context  # noqa: SLF001 - none is public
    if context is None:
        return False
    threading.Thread(target=context.cancelAllJobs, daemon=True).start()
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Limit what fixtures do."""
    with _limit(item, _SET_UP_S):
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Let no test pass that reached its limit."""
    yield
    if _CANCELLED in item.stash:
        pytest.fail("it reached its limit, and its Spark jobs were cancelled")


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
