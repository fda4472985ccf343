"""Counts rooms, floors, arrows, circles and lines from the imports: `python -m tools.house`.

A room is a folder directly below `harness` or `tools`, or one of the packages `reference_impl` and `reports`; an arrow
leads from a room to one that it imports, tests left out. A room's floor is one above the highest room that it imports.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import click
import grimp

ROOT = Path(__file__).resolve().parents[1]
_PACKAGES = ("harness", "reference_impl", "reports", "tools")
_OF_FOLDERS = ("harness", "tools")


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """What the imports say."""

    arrows: Mapping[str, frozenset[str]]
    """Room -> the rooms that it imports."""
    floors: Mapping[str, int]
    """Room -> its floor, from 1; empty if rooms import each other in a circle."""
    circle: tuple[str, ...]
    """The rooms of a circle; empty: there is none."""


def measure() -> House:
    """Reads the imports of this checkout."""
    graph = grimp.build_graph(*_PACKAGES, cache_dir=None)
    arrows: dict[str, set[str]] = {}
    for module in graph.modules:
        room = _room_of(module)
        if room is None:
            continue
        arrows.setdefault(room, set())
        for imported in graph.find_modules_directly_imported_by(module):
            other = _room_of(imported)
            if other not in (None, room):
                arrows[room].add(other)
    try:
        order = tuple(TopologicalSorter(arrows).static_order())
    except CycleError as error:
        return House(arrows=_frozen(arrows), floors={}, circle=tuple(error.args[1]))
    floors: dict[str, int] = {}
    for room in order:
        floors[room] = 1 + max((floors[below] for below in arrows[room]), default=0)
    return House(arrows=_frozen(arrows), floors=floors, circle=())


def _frozen(arrows: Mapping[str, set[str]]) -> Mapping[str, frozenset[str]]:
    return {room: frozenset(below) for room, below in sorted(arrows.items())}


def _room_of(module: str) -> str | None:
    """The room of a module; None: a test, or a module that stands in no room."""
    root, *rest = module.split(".")
    if "tests" in rest:
        return None
    if root not in _OF_FOLDERS:
        return root
    return f"{root}.{rest[0]}" if rest and (ROOT / root / rest[0]).is_dir() else None


def lines_of(*, tests: bool) -> tuple[int, int]:
    """Lines and modules of `harness`, `reference_impl` and `reports`, or of all tests beside code."""
    folders = ("harness", "reference_impl", "reports", *(["tools"] if tests else []))
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    counted = [file for file in files if ("tests" in file.relative_to(ROOT).parts) is tests]
    return sum(file.read_bytes().count(b"\n") for file in counted), len(counted)


@click.command()
def main() -> None:
    """Print each room with its floor and the rooms that it imports, then the totals."""
    house = measure()
    for room in sorted(house.arrows, key=lambda room: (house.floors.get(room, 0), room)):
        below = ", ".join(sorted(house.arrows[room])) or "nothing"
        click.echo(f"{house.floors.get(room, 0):3} {room}: {below}")
    arrows = sum(map(len, house.arrows.values()))
    click.echo(f"{len(house.arrows)} rooms, {max(house.floors.values(), default=0)} floors, {arrows} arrows")
    click.echo(f"circle: {' -> '.join(house.circle) or 'none'}")
    for what, tests in (("source", False), ("tests", True)):
        lines, modules = lines_of(tests=tests)
        click.echo(f"{what}: {lines:,} lines, {modules} modules")


if __name__ == "__main__":
    main()
