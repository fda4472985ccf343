"""The page of the runners says what the runners refuse."""

from __future__ import annotations

import pytest

from tools.pages.runner_page import PAGE, page_text

pytest.importorskip("pyarrow")


def test_the_page_is_what_the_program_writes() -> None:
    page = PAGE.read_text()

    assert page_text(page) == page, "python -m tools.pages.runner_page"
