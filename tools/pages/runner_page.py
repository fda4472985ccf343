"""Writes the table of `docs/reference/runners.md`: which scenarios of level spark run in batches, and why not others.

Invariant: the page's table is this program's output (`tests/test_runner_page.py` compares them); its prose is by hand.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from harness.levels.spark.level import lacks_of_runner
from harness.scenario.catalogue import catalogue
from harness.scenario.file import load
from harness.scenario.model import Scenario

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "runners.md"


def page_text(page: str) -> str:
    """The page with its generated table replaced."""
    text = "\n".join(_lines())
    table = re.compile(r"(<!-- scenarios -->\n).*?(<!-- end -->)", re.DOTALL)
    return table.sub(lambda found: f"{found[1]}{text}\n{found[2]}", page)


def _lines() -> Iterator[str]:
    yield "| scenario | `micro-batch` |"
    yield "|---|---|"
    for name, scenario in _of_spark():
        reasons = "; ".join(lacks_of_runner(scenario))
        yield f"| `{name}` | {'no: ' + reasons if reasons else 'yes'} |"


def _of_spark() -> Iterator[tuple[str, Scenario]]:
    for name, path in sorted(catalogue().items()):
        if path.parent.name == "jobs":
            continue
        scenario = load(path)
        if "spark" in scenario.levels and all("spark" in fault.levels for fault in scenario.faults):
            yield name, scenario


if __name__ == "__main__":
    PAGE.write_text(page_text(PAGE.read_text()))
    sys.exit(0)
