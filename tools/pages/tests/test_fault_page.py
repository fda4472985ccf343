"""`docs/reference/faults.md` is fresh, and holds every fault that a scenario can name."""

from __future__ import annotations

from harness.faults.registry import FAULTS
from tools.cases import each
from tools.pages.fault_page import PAGE, page_text, where_of


def test_the_page_is_made_of_the_tables() -> None:
    """Stale: run `python -m tools.pages.fault_page`."""
    assert PAGE.read_text(encoding="utf-8") == page_text()


@each("name", FAULTS)
def test_every_fault_has_its_line(name: str) -> None:
    assert f"\n| `{name}` | {FAULTS[name].about.replace('|', '')}" in page_text()


def test_a_fault_that_not_every_place_can_do_says_where() -> None:
    assert where_of(FAULTS["lost_commit"]) == "our own proxy; every level"
    assert where_of(FAULTS["pause_executor"]) == "level spark"
    assert where_of(FAULTS["latency"]) == "every level"
