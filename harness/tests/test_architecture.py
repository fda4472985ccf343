"""The floors of the house: each contract in `pyproject.toml` convicts, and what no contract can say.

The contracts themselves are run by `lint-imports` (`tox -e arch`); here each is shown an import that it is
there to refuse, planted into a copy of the tree. Everything here reads all modules, so it is marked `arch`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from copy import deepcopy
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

from harness.tests.tidy import ROOT, our_files

pytestmark = pytest.mark.arch

PACKAGES = ("harness", "reference_impl", "reports")
LINT_IMPORTS = Path(sysconfig.get_path("scripts")) / "lint-imports"

PLANTED = [
    ("harness/history/verdict.py", "import harness.engine.perform", "the harness's floors"),
    ("harness/newcomer.py", "import harness.system.errors", "the harness's floors"),
    ("reference_impl/elements.py", "import reference_impl.task.stream_task", "the operator's floors"),
    (
        "harness/judge/explanation/events.py",
        "import harness.judge.explanation.explain",
        "no circle inside a package",
    ),
    ("harness/faults/latency.py", "import harness.faults.down", "faults do not know each other"),
    (
        "reference_impl/task/stream_task.py",
        "import harness.system.clock",
        "the operator knows nothing of the harness",
    ),
    ("harness/faults/latency.py", "import asyncio", "share no code with the suspect"),
    ("harness/judge/checkers/order.py", "import reference_impl.elements", "share no code with the suspect"),
    ("reference_impl/errors.py", "import asyncio", "what is pure in the operator"),
    ("harness/scenario/outcome.py", "import reference_impl", "only the system under test"),
    ("harness/engine/perform.py", "import tools.defects", "the product needs no tools"),
    ("harness/engine/perform.py", "import pyspark", "Spark stays in its folder"),
    ("harness/engine/perform.py", "import docker", "the container engine stays"),
    ("harness/engine/perform.py", "import reports", "reports are called from the top only"),
    ("reports/reading.py", "import harness.scenario.model", "a report is made from what a run left"),
]

IMPORT_ALL = """
import importlib, sys, traceback
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except BaseException:
        traceback.print_exc()
        print(name)
"""


def lint_imports(tree: Path) -> subprocess.CompletedProcess[str]:
    """What the contracts say about the packages in `tree`."""
    environment = {"PATH": "/usr/bin:/bin", "COLUMNS": "250", "PYTHONPATH": str(tree)}
    return subprocess.run(
        [LINT_IMPORTS, "--no-cache"],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of our packages and their contracts, free to be spoiled."""
    left_out = shutil.ignore_patterns("__pycache__", "out")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=left_out)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    """Who imports whom, the libraries included."""
    return grimp.build_graph(*PACKAGES, include_external_packages=True, cache_dir=None)


def test_the_contracts_hold(tree: Path) -> None:
    answer = lint_imports(tree)

    assert answer.returncode == 0, answer.stdout


@pytest.mark.parametrize(("path", "statement", "contract"), PLANTED)
def test_the_contract_convicts_a_planted_import(tree: Path, path: str, statement: str, contract: str) -> None:
    with (tree / path).open("a") as module:
        module.write(f"\n{statement}\n")

    answer = lint_imports(tree)

    refused = [line for line in answer.stdout.splitlines() if "BROKEN" in line]
    assert any(contract in line for line in refused), answer.stdout


def packages_imported(graph: grimp.ImportGraph) -> dict[str, set[str]]:
    """Package -> the packages that its own modules import, a package and a folder in it being two.

    The roots of `harness` and `reports` hold modules of several floors, which the layers keep apart.
    """
    ours = [name for root in PACKAGES for name in (root, *graph.find_descendants(root))]
    package_of = {name: name if graph.find_children(name) else name.rpartition(".")[0] for name in ours}
    imported: dict[str, set[str]] = {}
    for importer in ours:
        for name in graph.find_modules_directly_imported_by(importer):
            pair = package_of[importer], package_of.get(name, "")
            if pair[0] != pair[1] and not {"", "harness", "reports"} & set(pair):
                imported.setdefault(pair[0], set()).add(pair[1])
    return imported


def test_no_package_imports_its_own_importers_not_even_a_folder_its_parent(graph: grimp.ImportGraph) -> None:
    order = list(TopologicalSorter(packages_imported(graph)).static_order())

    assert "harness.database.simulated" in order


def test_a_folder_and_its_parent_that_import_each_other_are_a_circle(graph: grimp.ImportGraph) -> None:
    spoiled = deepcopy(graph)
    spoiled.add_import(
        importer="harness.judge.checkers.screen.totals", imported="harness.judge.checkers.indexed_history"
    )

    with pytest.raises(CycleError):
        TopologicalSorter(packages_imported(spoiled)).prepare()


def test_the_operator_needs_the_standard_library_and_msgspec_only(graph: grimp.ImportGraph) -> None:
    foreign = [
        f"{importer} imports {imported}"
        for importer in sorted(graph.find_descendants("reference_impl") | {"reference_impl"})
        for imported in sorted(graph.find_modules_directly_imported_by(importer))
        if imported.partition(".")[0] not in {"reference_impl", "msgspec", *sys.stdlib_module_names}
    ]

    assert not foreign


def test_every_module_can_be_imported(graph: grimp.ImportGraph) -> None:
    """In one process: without circles, the order of imports cannot matter."""
    ours = sorted(
        name for name in graph.modules if name.partition(".")[0] in PACKAGES and ".tests" not in name
    )

    answer = subprocess.run(
        [sys.executable, "-W", "error::SyntaxWarning", "-c", IMPORT_ALL, *ours],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert not answer.stdout.split(), answer.stderr


def test_what_is_marked_arch_stands_where_its_environment_looks() -> None:
    """Elsewhere it would run in no environment: `quick` leaves it out."""
    (command,) = re.findall(r"-m arch (.+) \{posargs\}", (ROOT / "tox.ini").read_text())
    marked = [path.as_posix() for path, text in our_files() if path.suffix == ".py" and "mark.arch" in text]

    assert [path for path in marked if not path.startswith(tuple(command.split()))] == []
