"""The tables of `docs/reference/proxy.md` are made from what is."""

from __future__ import annotations

from harness.proxy.conformance.tests.differences import DIFFERENCES
from harness.proxy.toxic_kinds import TOXIC_KINDS
from tools.pages.proxy_page import PAGE, page_text


def test_the_page_is_as_the_program_writes_it() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert page == page_text(page), "run: python -m tools.pages.proxy_page"


def test_the_page_has_every_toxic_and_every_difference() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()

    assert all(any(line.startswith(f"| `{kind}`") for line in lines) for kind in TOXIC_KINDS)
    assert all(any(line.startswith(f"| {one.when} |") for line in lines) for one in DIFFERENCES)
