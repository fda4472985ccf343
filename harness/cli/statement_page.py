"""The page of the statements, `docs/statements.md`: which test shows which, made from the tests themselves.

Answers to Maelstrom's generated tables. `python -m harness.cli.statement_page` writes it anew; a test fails while it
is stale. A test shows a statement that its name ends with (`..._a36_a43`), or that its docstring or a comment in
it names one by one; a range is too easily said. Invariant: each statement has a test, or a reason to have none,
and never both.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from harness.cli.statement_titles import OUT_OF_SCOPE, TITLES
from harness.errors import Exit

__all__ = ["PAGE", "comments_of", "main", "mistakes", "numbers_of", "page_text", "read_tests", "shown_by"]

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "statements.md"

_FOLDERS = ("reference_impl", "harness")
_LETTERS: Mapping[str, str] = {
    "A": "A: the operator",
    "M": "M: the mailbox and its loop",
    "T": "T: timers",
    "C": "C: checkpoints",
    "S": "S: state",
    "W": "W: watermarks of several channels",
}
_OPENING = """\
# Statements and their tests

Made by `python -m harness.cli.statement_page`; do not edit.

What an asynchronous wait operator and the task around it have to do is written down in numbered statements;
[references](references.md) tells them in a sentence each. Here is the test, or several, that shows each of them,
found by the number in the test's name, docstring or comments. Those without one have a reason."""

Tests = Mapping[str, Sequence[str]]
"""By statement, the tests that show it, as pytest names them."""


def shown_by(files: Mapping[str, str]) -> Tests:
    """The tests in `files`, each a path with its text, by the statements that they cite."""
    found: dict[str, list[str]] = {number: [] for number in TITLES}
    for path, text in sorted(files.items()):
        comments = comments_of(text)
        for test in _tests(ast.parse(text)):
            for number in numbers_of(test, comments):
                if number in found:
                    found[number].append(f"{path}::{test.name}")
    return found


def _tests(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node


def numbers_of(test: ast.FunctionDef, comments: Mapping[int, str]) -> Sequence[str]:
    """What `test` cites, each once; `comments` are the file's, by line."""
    lines = range(test.lineno, (test.end_lineno or test.lineno) + 1)
    said = [ast.get_docstring(test) or "", *(comments[line] for line in lines if line in comments)]
    prose = re.sub(r"\b[AMTCSW]\d+-[AMTCSW]?\d+\b", "", " ".join(said))
    named = [
        f"{letter.upper()}{number}"
        for letter, number in re.findall(r"_([amtcsw])(\d+)[a-z]?(?=_|$)", test.name)
    ]
    return list(dict.fromkeys([*named, *re.findall(r"\b[AMTCSW]\d+\b", prose)]))


def comments_of(text: str) -> Mapping[int, str]:
    """By line."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}


def mistakes(tests: Tests) -> Iterator[str]:
    """A statement without test and reason, or with both."""
    for number, title in TITLES.items():
        if not tests[number] and number not in OUT_OF_SCOPE:
            yield f"{number} ({title}) has no test; write one that cites it, or give the reason in OUT_OF_SCOPE"
        if tests[number] and number in OUT_OF_SCOPE:
            yield f"{number} ({title}) is out of scope, but {tests[number][0]} cites it; take one of them away"


def page_text(tests: Tests) -> str:
    """The page's content."""
    return "\n".join([_OPENING, *(line for letter in _LETTERS for line in _section(letter, tests))]) + "\n"


def _section(letter: str, tests: Tests) -> Iterator[str]:
    yield f"\n## {_LETTERS[letter]}\n"
    for number, title in TITLES.items():
        if number.startswith(letter):
            yield f"- **{number}** {title}"
            yield from (f"  - `{test}`" for test in tests[number])
            if number in OUT_OF_SCOPE:
                yield f"  - out of scope: {OUT_OF_SCOPE[number]}"


def read_tests() -> Mapping[str, str]:
    """The repository's own."""
    paths = (path for folder in _FOLDERS for path in (ROOT / folder).rglob("tests/test_*.py"))
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def main() -> None:
    """Write the file; or say what is unaccounted for, and end with 1."""
    tests = shown_by(read_tests())
    wrong = list(mistakes(tests))
    if wrong:
        sys.stderr.write("\n".join(wrong) + "\n")
        sys.exit(Exit.VIOLATION)
    PAGE.write_text(page_text(tests), encoding="utf-8")
    sys.stdout.write(f"{PAGE}\n")


if __name__ == "__main__":
    main()
