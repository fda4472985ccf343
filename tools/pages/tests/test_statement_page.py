"""The page of the statements is made from the tests as they are, and nothing on it is unaccounted for."""

from __future__ import annotations

import ast
import re

import pytest

from harness.system.errors import Exit
from tools.pages import statement_page
from tools.pages.statement_page import (
    NOT_BUILT,
    OUT_OF_SCOPE,
    PAGE,
    TITLES,
    Tests,
    main,
    mistakes,
    numbers_of,
    page_text,
    read_tests,
    shown_by,
)

pytestmark = pytest.mark.arch


@pytest.fixture(scope="module")
def shown() -> Tests:
    """By the tests of this repository."""
    return shown_by(read_tests())


def test_the_page_is_made_from_the_tests_as_they_are(shown: Tests) -> None:
    assert PAGE.read_text(encoding="utf-8") == page_text(shown), "run: python -m tools.pages.statement_page"


def test_every_statement_has_a_test_or_a_reason_and_not_both(shown: Tests) -> None:
    assert list(mistakes(shown)) == []


def test_every_number_has_a_title_and_a_line_of_its_own(shown: Tests) -> None:
    numbers = [
        f"{letter}{number}"
        for letter, last in (("A", 93), ("M", 49), ("T", 16), ("C", 45), ("S", 25), ("W", 3))
        for number in range(1, last + 1)
    ]

    assert list(TITLES) == numbers
    assert re.findall(r"^- \*\*(\w+)\*\*", page_text(shown), re.MULTILINE) == numbers
    assert {*OUT_OF_SCOPE, *NOT_BUILT} <= set(numbers)


def cited(source: str) -> list[str]:
    """What the one test of `source` cites."""
    (test,) = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    return list(numbers_of(test, statement_page.comments_of(source)))


@pytest.mark.parametrize(
    ("source", "numbers"),
    [
        ("def test_it_is_so_a36_m17b_t2():\n    pass\n", ["A36", "M17", "T2"]),
        ('def test_it():\n    """A7, B1 and M2."""\n', ["A7", "M2"]),
        ("def test_it():\n    pass  # T9: as there\n", ["T9"]),
        ('def test_it_a7():\n    """A7."""\n', ["A7"]),
        ('def test_it():\n    """A7-A26, M1-16."""\n', []),
        ("# A9\ndef test_a4_paper_at2_m():\n    return 'A8'\n", ["A4"]),
    ],
)
def test_a_test_cites_by_its_name_its_docstring_and_its_comments(source: str, numbers: list[str]) -> None:
    assert cited(source) == numbers


def test_a_statement_that_nothing_holds_is_shown_as_not_built(shown: Tests) -> None:
    assert f"- **C34** {TITLES['C34']}\n  - not built: {NOT_BUILT['C34']}\n" in page_text(shown)


def test_a_statement_without_test_and_reason_is_an_error_that_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(statement_page, "read_tests", dict)

    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == Exit.VIOLATION
    complaints = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in complaints] == [
        number for number in TITLES if number not in {*OUT_OF_SCOPE, *NOT_BUILT}
    ]


@pytest.mark.parametrize("number", [next(iter(OUT_OF_SCOPE)), next(iter(NOT_BUILT))])
def test_a_reason_for_a_statement_that_has_a_test_is_an_error(shown: Tests, number: str) -> None:
    tests = {**shown, number: ["test_x.py::test_x"]}

    assert [mistake.split()[0] for mistake in mistakes(tests)] == [number]
