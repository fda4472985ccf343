"""What we import is declared, what is declared is imported and locked, and the core stays light."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from importlib.metadata import packages_distributions

import grimp
import pytest

from harness.tests.tidy import ROOT

NEVER_IMPORTED = {
    "cryptography": "pymysql asks for it where MySQL exchanges a password without TLS",
    "pandas": "Spark's Arrow path asks for it",
    "protobuf": "Spark's plans need it",
}
ELSEWHERE = {"pyflink": "the benchmark's program for an environment of PyFlink's own"}
"""Imported, and not ours to declare."""
PARTS = {"markupsafe": "jinja2", "pydantic-core": "pydantic"}
"""Distributions that are one library with another, in equal step."""
TOOLS = {"all", "dev", "docs"}
"""Extras that the product's own modules do not import."""


def plain(requirement: str) -> str:
    """A requirement's distribution, spelled as an index spells it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=!~; ]", requirement)[0]).lower()


def declared() -> Mapping[str, set[str]]:
    """The distributions of the core (`""`) and of each extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    groups = {"": project["dependencies"], **{name: extras[name] for name in extras if name not in TOOLS}}
    return {name: {plain(requirement) for requirement in listed} for name, listed in groups.items()}


@pytest.fixture(scope="module")
def imported() -> set[str]:
    """The distributions that the product's modules import (tests left out)."""
    ours = ("harness", "reference_impl", "reports")
    graph = grimp.build_graph(*ours, include_external_packages=True, cache_dir=None)
    foreign = {name.partition(".")[0] for name in graph.modules}.difference(ours, sys.stdlib_module_names)
    owners = packages_distributions()
    found = {plain(owner) for module in foreign for owner in owners.get(module, [module])}
    return {PARTS.get(name, name) for name in found}


@pytest.mark.arch
def test_what_is_imported_is_declared(imported: set[str]) -> None:
    assert imported <= set().union(*declared().values(), {"pytest"}, ELSEWHERE)


@pytest.mark.arch
def test_what_is_declared_is_imported_or_has_its_reason(imported: set[str]) -> None:
    assert set().union(*declared().values()) <= imported.union(NEVER_IMPORTED)


def test_what_is_declared_is_locked() -> None:
    locked = {plain(line) for line in (ROOT / "constraints.txt").read_text().splitlines()}

    assert set().union(*declared().values()) <= locked


def test_every_lock_is_one_exact_version() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()

    assert not [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", line)]


@pytest.mark.arch
@pytest.mark.parametrize(
    ("modules", "limit_s"),
    [
        ("harness.cli.main", 20),
        ("harness.cli.run_campaign, harness.cli.judging, harness.levels.sim.level, harness.sut.lookup", 60),
        ("harness.explore.exploration, harness.explore.kill_matrix, harness.conform.operator_judged", 60),
    ],
)
def test_the_command_line_and_level_sim_start_without_any_extra(modules: str, limit_s: int) -> None:
    heavy = {"asyncmy", "docker", "faker", "hypothesis", "pandas", "pyarrow", "pymysql", "pyspark"}
    code = f"import sys, {modules}; print(*sys.modules)"

    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=limit_s
    )

    assert not heavy.intersection(answer.stdout.split())
