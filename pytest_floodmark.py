"""Floodmark's entry point for pytest: options, marker and fixture, and the switch that loads the plugin itself.

It stands beside the packages and imports none of them until Floodmark is used: in each other session of each project
that has Floodmark installed, a package of the user's called `harness` or `reports` keeps its name. What is done once it
is on is in `harness/testing/pytest_plugin.py`. Why: docs/decisions/0004.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from harness.testing import Floodmark

_HOME = Path(__file__).resolve().parent
_PLUGIN = "harness.testing.pytest_plugin"
_IS_JOB = re.compile(rb"^\[job\]", re.MULTILINE)
_IS_SCENARIO = re.compile(rb"^scenario\s*:", re.MULTILINE)
_IS_FOR_JOBS = re.compile(rb"^job_scenario\s*:", re.MULTILINE)
_MARKER = (
    "floodmark(*scenarios, sut, level, runs, seed, expected): these scenarios must hold before the test's body runs; "
    "what it names is the default of the fixture `floodmark`"
)
OPTIONS: dict[str, dict[str, Any]] = {
    "--floodmark-sut": {"metavar": "MODULE:NAME",
        "help": "the function under test (default: FLOODMARK_SUT, then `sut` of [tool.floodmark])"},
    "--floodmark-expected": {
        "metavar": "MODULE:NAME|none",
        "help": "what gives the results to expect of it (default: FLOODMARK_EXPECTED, then as for floodmark run)",
    },
    "--floodmark-level": {"choices": ["sim", "live", "spark", "all"],
        "help": "level of the runs; all: each of the scenario (default: live for scenario files, else sim)"},
    "--floodmark-tag": {"action": "append", "metavar": "TAG",
        "help": "only scenarios with this tag; repeatable: with all of them"},
    "--floodmark-world": {"choices": ["auto", "containers", "local"],
        "help": "where the database and its proxy come from (default: auto)"},
    "--floodmark-proxy": {"choices": ["auto", "own", "toxiproxy"],
        "help": "the proxy before the database (default: auto)"},
    "--floodmark-seed": {"type": int, "help": "seed of every run (default: a new one)"},
    "--floodmark-repeat": {"type": int, "metavar": "N",
        "help": "repeat a vacuous run at live or spark up to N times, with new seeds (default: 0)"},
    "--floodmark-report": {"type": Path, "help": "folder of the report (default: reports/out/<run id>)"},
}  # fmt: skip


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options `--floodmark-...`; each is None unless it is given, which turns Floodmark on."""
    group = parser.getgroup("floodmark", "scenarios as tests")
    for name, rest in OPTIONS.items():
        group.addoption(name, default=None, **rest)


def pytest_configure(config: pytest.Config) -> None:
    """Name the marker, which strict sessions need, and load the plugin if an option is given."""
    config.addinivalue_line("markers", _MARKER)
    if _has_option(config):
        _plugin(config)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect scenario files: with an option given, each YAML file that is named or in a folder named `scenarios`.

    Without one, only what looks like a scenario, and is named itself or by such a folder. A job file is collected if it
    is named itself: its runs take a database and seconds each.
    """
    if file_path.suffix == ".toml" and parent.session.isinitpath(file_path):
        if _IS_JOB.search(file_path.read_bytes()) is None:
            return None
        tests: pytest.Collector = _plugin(parent.config).JobFileTests.from_parent(parent, path=file_path)
        return tests
    if file_path.suffix not in {".yaml", ".yml"}:
        return None
    session, is_named = parent.session, parent.session.isinitpath(file_path)
    if (is_named or "scenarios" in file_path.parts) and _IS_FOR_JOBS.search(file_path.read_bytes()):
        if is_named:
            fix = f"name the job's file, with {file_path.stem!r} in its `scenarios`: pytest job.toml"
            raise parent.CollectError(f"{file_path} is a scenario for jobs: {fix}")
        return None
    if _has_option(parent.config):
        wanted = is_named or "scenarios" in file_path.parts
    else:
        folders = [folder for folder in file_path.parents if "scenarios" in folder.parts]
        wanted = is_named or any(session.isinitpath(folder) for folder in folders)
        wanted = wanted and _IS_SCENARIO.search(file_path.read_bytes()) is not None
    if not wanted:
        return None
    collected: pytest.Collector = _plugin(parent.config).ScenarioFile.from_parent(parent, path=file_path)
    return collected


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Run the scenarios of the marker before the test's body."""
    marker = item.get_closest_marker("floodmark")
    if marker is not None and marker.args:
        _plugin(item.config).fixture_for(item).holds()


@pytest.fixture
def floodmark(request: pytest.FixtureRequest) -> Floodmark:
    """Asserts that scenarios hold with your function: `floodmark.holds("connections-cut", sut=lookup, runs=20)`."""
    made: Floodmark = _plugin(request.config).fixture_for(request.node)
    return made


def _has_option(config: pytest.Config) -> bool:
    return any(config.getoption(name) is not None for name in OPTIONS)


def _plugin(config: pytest.Config) -> Any:
    """The plugin, imported and registered once. Raises UsageError if `harness` is another package."""
    if not config.pluginmanager.has_plugin(_PLUGIN):
        found = sys.modules.get("harness")
        if found is not None and Path(found.__file__ or "").resolve().parent.parent != _HOME:
            raise pytest.UsageError(
                f"floodmark: `harness` is the package in {found.__file__ or found.__path__}, which was imported first, "
                "so Floodmark's own package of that name cannot be: rename yours, or turn Floodmark on with an option "
                "(addopts = --floodmark-level=sim) and do without `import harness` of yours in this session"
            )
        sys.path.insert(0, str(_HOME))
        try:
            module = import_module(_PLUGIN)
            import_module("harness.system.own_packages").import_ours()
        finally:
            sys.path.remove(str(_HOME))
        config.pluginmanager.register(module, _PLUGIN)
    return config.pluginmanager.get_plugin(_PLUGIN)
