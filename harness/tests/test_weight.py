"""Weight is a cost: source lines rise only by a decision, and small private functions with one caller get fewer.

The house keeps its rooms, floors and arrows (decision 61).
"""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from harness.tests.tidy import our_files, parse
from tools.house import lines_of, measure

PACKAGES = ("harness", "reference_impl", "reports")
ROOMS_MAX, FLOORS_MAX, ARROWS_MAX = 21, 12, 135
LINES_MAX, LINES_DECISION = 125_080, "0096"
"""Source lines without tests; the decision that last let them rise says what was bought."""
SMALL_LINES_MAX = 5
SMALL_ONES_MAX = {"harness": 250, "reference_impl": 22, "reports": 17}
"""Private functions of five lines or less that are named once, by package. To be lowered only."""


def sources() -> list[tuple[str, str]]:
    """Path and text of each module that is no test's."""
    return [
        (path.as_posix(), text)
        for path, text in our_files()
        if path.suffix == ".py" and path.parts[0] in PACKAGES and "tests" not in path.parts
    ]


def small_ones(text: str) -> list[str]:
    """The private functions and methods of a module that are short and named once besides their definition."""
    named: Counter[str] = Counter()
    short = []
    for node in ast.walk(parse(text)):
        if isinstance(node, ast.Name):
            named[node.id] += 1
        elif isinstance(node, ast.Attribute):
            named[node.attr] += 1
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if node.name.startswith("_") and not node.name.endswith("__") and lines <= SMALL_LINES_MAX:
                short.append(node.name)
    return [name for name in short if named[name] == 1]


@pytest.mark.arch
def test_source_lines_do_not_rise_without_a_decision() -> None:
    lines, _ = lines_of(tests=False)

    assert lines <= LINES_MAX, f"{lines} lines; a decision after {LINES_DECISION} may raise LINES_MAX"


@pytest.mark.arch
def test_the_house_has_few_rooms_floors_and_arrows_and_no_circle() -> None:
    house = measure()

    assert house.circle == ()
    assert len(house.arrows) <= ROOMS_MAX
    assert max(house.floors.values()) <= FLOORS_MAX
    assert sum(map(len, house.arrows.values())) <= ARROWS_MAX


@pytest.mark.arch
@pytest.mark.parametrize("package", PACKAGES)
def test_small_private_functions_with_one_caller_get_fewer(package: str) -> None:
    found = [
        f"{path}: {name}"
        for path, text in sources()
        if path.startswith(f"{package}/")
        for name in small_ones(text)
    ]

    assert len(found) <= SMALL_ONES_MAX[package], "\n".join(found)


def test_a_small_private_function_with_one_caller_is_found_and_no_other() -> None:
    tall = "def _tall():\n" + "    x = 1\n" * SMALL_LINES_MAX
    defined = "def _once(): ...\ndef _twice(): ...\ndef shown(): ...\n" + tall
    text = f"{defined}_once()\n_twice()\n_twice()\nshown()\n_tall()\n"

    assert small_ones(text) == ["_once"]
