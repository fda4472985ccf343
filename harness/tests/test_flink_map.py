"""`docs/reference/flink-map.md` maps to what exists, leaves no module out, and names a test for each deviation."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import PurePosixPath

import pytest

from harness.tests.tidy import ROOT, our_files

PAGE = (ROOT / "docs/reference/flink-map.md").read_text()
PACKAGE = "reference_impl"
MODULES: Sequence[str] = [
    ".".join(path.with_suffix("").parts[1:])
    for path, _ in our_files()
    if path.suffix == ".py"
    and path.parts[0] == PACKAGE
    and not {"tests", "__init__.py"}.intersection(path.parts)
]


def named(page: str) -> set[tuple[str, str]]:
    """Each `module::name` and each `file::test`, as two parts."""
    return set(re.findall(r"`([\w./]+)::([\w.]+)`", page))


def ghosts(page: str) -> list[str]:
    """What `page` names and what is not there."""
    return [f"{place}::{name}" for place, name in sorted(named(page)) if not exists(place, name)]


def exists(place: str, name: str) -> bool:
    """Whether the test or the public thing is there, named from the operator's package; a test also from the root."""
    if place.endswith(".py"):
        files = (ROOT / PACKAGE / place, ROOT / place)
        return any(file.exists() and name in functions(file.read_text()) for file in files)
    try:
        found = import_module(f"{PACKAGE}.{place}")
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return False
    return True


def functions(source: str) -> set[str]:
    """The functions that a module defines at its top."""
    return {node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}


def deviations(page: str) -> Iterator[str]:
    """The rows of every table whose last column is `shown by`, without its two head rows."""
    for table in re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE):
        head, _, *rows = table.splitlines()
        if head.endswith("| shown by |"):
            yield from rows


def untested(page: str) -> list[str]:
    """The deviations whose last cell names no test."""
    return [row for row in deviations(page) if not re.search(r"\.py::test_\w+`[^|]*\|$", row)]


def test_what_the_page_names_exists() -> None:
    assert not ghosts(PAGE)


def test_every_module_of_the_operator_is_on_the_page() -> None:
    mapped = {place for place, _ in named(PAGE)}

    assert not [module for module in MODULES if module not in mapped]


def test_each_deviation_names_the_test_that_shows_it() -> None:
    assert list(deviations(PAGE))
    assert not untested(PAGE)


@pytest.mark.parametrize(
    "ghost",
    ["mailbox::Gone", "gone::Mailbox", "mailbox.mailbox::Mailbox.gone", "tests/test_mailbox.py::test_gone"],
)
def test_a_page_that_names_what_is_gone_is_convicted(ghost: str) -> None:
    assert ghosts(f"| `X` | `mailbox.mailbox::Mailbox.put`, `{ghost}` | |\n") == [ghost]


def test_a_deviation_without_a_test_is_convicted() -> None:
    table = "| Flink | shown by |\n|---|---|\n| a | `tests/x.py::test_a` |\n| b | soon |\n"

    assert untested(f"| x |\n|---|\n| no deviation |\n\n{table}") == ["| b | soon |"]


def test_the_modules_are_those_of_the_package() -> None:
    assert {"elements", "operator.queues", "flip12.buffers"} <= set(MODULES)
    assert not [name for name in MODULES if PurePosixPath(name).suffix == ".tests"]
