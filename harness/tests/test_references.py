"""Each short name in the code has an entry in `docs/reference/references.md`, and no citation leads outside."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

import pytest

from harness.tests.tidy import our_files, parse

pytestmark = pytest.mark.arch

TEXTS = dict(our_files())
PAGE = TEXTS[PurePosixPath("docs/reference/references.md")]
FORMAT = TEXTS[PurePosixPath("docs/reference/history.md")]
SOURCES: Sequence[PurePosixPath] = [path for path in TEXTS if path.suffix == ".py"]
OUTSIDE = re.compile(r"(?<![\w/.-])(?:spec|guide)/[\w-]+\.md\b")

ENTRIES = {
    *re.findall(r"^- \*\*([\w#-]+)\*\*", PAGE, re.MULTILINE),
    *re.findall(r"^(?:\*\*|\| )(V\d+) ", FORMAT, re.MULTILINE),
    *re.findall(r"\b(V\d+) \(", FORMAT),
    "V22",
}


def numbers(prose: str) -> Iterator[str]:
    """The numbers that a text cites; of a range, `A7-A26`, each."""
    for first, last in re.findall(r"\b([AMTCSWVB]\d{1,2})-([AMTCSWVB]\d{1,2})\b", prose):
        yield from (f"{first[0]}{number}" for number in range(int(first[1:]), int(last[1:]) + 1))
    yield from re.findall(r"\b[AMTCSWVB]\d{1,2}\b", prose)
    yield from re.findall(r"\b(?:FLINK|KAFKA)-\d+\b|\b[\w-]+#\d+\b", prose)


def prose(source: str) -> Iterator[str]:
    """Comments and docstrings, those that stand below a name too."""
    for node in ast.walk(parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield str(node.value.value)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and "noqa" not in token.string:
            yield token.string


@pytest.mark.parametrize("folder", ["harness", "reference_impl", "reports"])
def test_every_number_that_the_code_cites_has_an_entry(folder: str) -> None:
    cited = {
        (number, str(path))
        for path in SOURCES
        if path.parts[0] == folder and path.name != "test_references.py"
        for text in prose(TEXTS[path])
        for number in numbers(text)
    }

    assert not sorted((number, path) for number, path in cited if number not in ENTRIES)


def test_no_page_outside_the_repository_is_cited() -> None:
    cited = {str(path): found for path, text in TEXTS.items() if (found := OUTSIDE.findall(text))}

    assert not cited


def test_a_number_in_a_string_is_no_citation_and_one_in_a_comment_is() -> None:
    found = list(prose('"""Says (A1)."""\n\nx = "A2"  # as A3\n"""And A4."""\n'))

    assert [number for text in found for number in numbers(text)] == ["A1", "A4", "A3"]


def test_each_number_of_a_range_is_cited() -> None:
    assert set(numbers("M1-M3, and FLINK-24846, flink-agents#178")) == {
        "M1", "M2", "M3", "FLINK-24846", "flink-agents#178",
    }  # fmt: skip


@pytest.mark.parametrize(("folder", "found"), [("spec", True), ("guide", True), ("docs/guide", False)])
def test_a_page_outside_is_recognised_and_one_inside_is_not(folder: str, *, found: bool) -> None:
    assert bool(OUTSIDE.search(f"see `{folder}/page.md` 3")) is found
