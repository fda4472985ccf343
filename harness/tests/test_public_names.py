"""`__all__` holds what other modules import, and nothing else: a reader sees what a module is for.

A name counts as imported if another module of the repository (tests and tools included) takes it from this one, or if
a text names it as `module:name` (an entry point, a lazily imported command).
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import PurePosixPath

import pytest

from harness.tests.tidy import our_files, parse

pytestmark = pytest.mark.arch

FOUND_BY_THEIR_FOLDER = ("harness/faults", "harness/cli")
"""Registries: who collects their entries names no module."""
FOR_USERS = "harness/testing/__init__.py"
"""Taken by users' programs; `docs/reference/testing.md` names each of its names, which a test sees."""
OURS = ("harness", "reference_impl", "reports", "tools")


def module(path: PurePosixPath) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def aliases(tree: ast.Module, modules: Mapping[str, PurePosixPath]) -> dict[str, str]:
    """What a name stands for, where it stands for a module of ours."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom):
            whole = {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name: full for name, full in whole.items() if full in modules}
    return found


def dotted(node: ast.expr) -> str:
    """`a.b.c` of an attribute's whole path; empty if it begins with anything else than a name."""
    if isinstance(node, ast.Name):
        return node.id
    owner = dotted(node.value) if isinstance(node, ast.Attribute) else ""
    return f"{owner}.{node.attr}" if owner and isinstance(node, ast.Attribute) else ""


def taken_by(path: PurePosixPath, text: str, modules: Mapping[str, PurePosixPath]) -> set[tuple[str, str]]:
    """The pairs of module and name that this file takes from others."""
    taken = {
        (place, name)
        for place, name in re.findall(r"[\"'`](\w+(?:\.\w+)+?)(?:::?|\.)(\w+)\b", text)
        if place in modules
    }
    if path.suffix == ".py":
        tree = parse(text)
        stands_for = aliases(tree, modules)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                taken |= {(node.module or "", alias.name) for alias in node.names}
            elif isinstance(node, ast.Attribute):
                first, _, rest = dotted(node).partition(".")
                whole = f"{stands_for.get(first, first)}.{rest}"
                taken.add((whole.rpartition(".")[0], whole.rpartition(".")[2]))
    return {pair for pair in taken if pair[0] != module(path)}


def test_what_all_names_another_module_takes() -> None:
    texts = {path: text for path, text in our_files() if path.parts[0] not in {"docs", "changelog.d"}}
    modules = {module(path): path for path in texts if path.suffix == ".py"}
    taken: defaultdict[str, set[str]] = defaultdict(set)
    for path, text in texts.items():
        for place, name in taken_by(path, text, modules):
            taken[place].add(name)

    idle = [
        f"{path}: {name}"
        for path in modules.values()
        if path.parts[0] in OURS and "tests" not in path.parts and path.name != "__main__.py"
        if not path.as_posix().startswith((*FOUND_BY_THEIR_FOLDER, FOR_USERS))
        for name in public_names(texts[path])
        if name not in taken[module(path)]
    ]

    assert not idle, "\n".join(idle)


def public_names(text: str) -> list[str]:
    """What `__all__` of this module holds."""
    for node in parse(text).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def test_a_name_that_nobody_takes_is_seen() -> None:
    modules = {"a.b": PurePosixPath("a/b.py")}
    text = "from a.b import one\nimport a.b as b\nb.two()\nx = 'a.b:three'\n"

    assert taken_by(PurePosixPath("c.py"), text, modules) == {
        ("a.b", "one"),
        ("a.b", "two"),
        ("a.b", "three"),
    }
