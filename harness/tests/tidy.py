"""The style rules that no linter knows, each a function from one file to its breaches.

Answers to TigerBeetle's `tidy.zig`: style is tested, not preached. Invariant: a rule sees one path and its
text, nothing else, so that `test_tidy.py` can show each rule a bad example and see it convict.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path, PurePosixPath

Rule = Callable[[PurePosixPath, str], Iterator[str]]
"""Takes a path relative to the repository and the file's text; yields one sentence a breach."""

ROOT = Path(__file__).parents[2]
FUNCTION_LINES_MAX = 60

_TEXT = {
    "", ".Dockerfile", ".cfg", ".css", ".html", ".ini", ".js",
    ".json", ".md", ".py", ".sh", ".toml", ".txt", ".yaml",
}  # fmt: skip
_NOT_OURS = {".git", ".tox", ".venv", "__pycache__", "build", "dist", "out", "spark-warehouse"}
_BANNED_WORDS = {
    "abstract", "base", "common", "helper", "helpers", "impl", "manager", "managers", "misc", "util", "utils",
}  # fmt: skip
_FIXED_NAMES = {"reference_impl"}
"""Named by the customer."""
_BANNED_CLASS = re.compile(r"^(Abstract|Base)[A-Z]|^I[A-Z][a-z]|(Base|Helper|Impl|Manager|Utils?)$")
_FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def our_files() -> Sequence[tuple[PurePosixPath, str]]:
    """Every text file of the repository with its path, in a stable order; read once."""
    return tuple(_read_ours())


def _read_ours() -> Iterator[tuple[PurePosixPath, str]]:
    found: list[Path] = []
    for folder, below, names in os.walk(ROOT):
        below[:] = [name for name in below if name not in _NOT_OURS and (name[0] != "." or name == ".ci")]
        found += [Path(folder, name) for name in names if name not in _NOT_OURS]
    for path in sorted(found):
        if path.suffix in _TEXT and path.is_file():
            yield PurePosixPath(path.relative_to(ROOT)), path.read_bytes().decode(errors="replace")


def breaches(rule: Rule) -> list[str]:
    """What `rule` finds in the whole repository, each with its place."""
    return [f"{path}: {breach}" for path, text in our_files() for breach in rule(path, text)]


def _functions_fit(path: PurePosixPath, text: str) -> Iterator[str]:
    for node in _walk(path, text):
        if isinstance(node, _FUNCTION):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield f"{node.name} (line {node.lineno}): {lines} lines; a screen holds {FUNCTION_LINES_MAX}"


def _says_what_it_is(path: PurePosixPath, text: str) -> Iterator[str]:
    if path.suffix == ".py" and not (ast.get_docstring(parse(text)) or "").strip():
        yield "the module does not open with a sentence that says what it is"


def _program_starts_last(path: PurePosixPath, text: str) -> Iterator[str]:
    """What stands below `if __name__ == "__main__":` is not defined yet when the program runs."""
    for node in parse(text).body[:-1] if path.suffix == ".py" else ():
        if isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'":
            yield f"line {node.lineno}: the program starts above other definitions; put this last"


def _file_is_named_for_a_noun(path: PurePosixPath, _text: str) -> Iterator[str]:
    if path.suffix != ".py":
        return
    for name in (part.removesuffix(".py") for part in path.parts):
        if name not in _FIXED_NAMES and (words := _BANNED_WORDS.intersection(name.split("_"))):
            yield f"`{name}` is named `{', '.join(sorted(words))}`; name it for a noun that a user says"


def _classes_are_named_for_nouns(path: PurePosixPath, text: str) -> Iterator[str]:
    for node in _walk(path, text):
        if isinstance(node, ast.ClassDef) and _BANNED_CLASS.search(node.name):
            yield f"class {node.name} (line {node.lineno}): the name tells a pattern's role, not what it is"


def _lines_end_plainly(path: PurePosixPath, text: str) -> Iterator[str]:
    if "\r" in text:
        yield "a carriage return; lines end with a line feed only"
    if text and not text.endswith("\n"):
        yield "the last line does not end"
    if "\t" in text and path.name != "Makefile":
        yield "a tab; indent with spaces"
    if any(line != line.rstrip() for line in text.splitlines()):
        yield "blanks at the end of a line"


def _tests_do_not_wait(path: PurePosixPath, text: str) -> Iterator[str]:
    """No sleeping: advance a clock, or wait for a named condition with a limit. A job under test may sleep."""
    if not _is_test(path) or path.parent.name == "jobs":
        return
    for node in _walk(path, text):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"pause", "clock.pause", "time.sleep"}:
            yield f"line {node.lineno} sleeps; wait for a condition with `harness.system.clock.wait_until`"


def _tests_live_with_the_tested(path: PurePosixPath, _text: str) -> Iterator[str]:
    if path.name.startswith("test_") and path.suffix == ".py" and path.parent.name != "tests":
        yield "a test file lives in the `tests` folder of the package that it tests"
    if path.parts[0] == "scenarios" and path.suffix == ".py":
        yield "`scenarios` holds data only; code belongs to `harness`"


def _values_are_frozen(path: PurePosixPath, text: str) -> Iterator[str]:
    """A dataclass is frozen, slotted and keyword-only; one that is not frozen says why."""
    if _is_test(path):
        return
    for node in _walk(path, text):
        if not isinstance(node, ast.ClassDef):
            continue
        for decorator in node.decorator_list:
            source = ast.unparse(decorator)
            if not source.startswith("dataclass"):
                continue
            told = re.search(r"mutable|chang", ast.get_docstring(node) or "", re.IGNORECASE)
            if "frozen=True" not in source and not told:
                yield f"{node.name} (line {node.lineno}) is not frozen, and its docstring does not say why"
            if "kw_only=True" not in source or "slots=True" not in source:
                yield f"{node.name} (line {node.lineno}) lacks slots=True or kw_only=True"


parse = cache(ast.parse)
"""Each text is parsed once, however many rules read it."""


@cache
def _nodes(text: str) -> Sequence[ast.AST]:
    return tuple(ast.walk(parse(text)))


def _walk(path: PurePosixPath, text: str) -> Iterator[ast.AST]:
    return iter(_nodes(text)) if path.suffix == ".py" else iter(())


def _is_test(path: PurePosixPath) -> bool:
    return "tests" in path.parts


RULES: Mapping[str, Rule] = {
    "a function fits a screen": _functions_fit,
    "a module says what it is": _says_what_it_is,
    "a program starts last": _program_starts_last,
    "a file is named for a noun": _file_is_named_for_a_noun,
    "a class is named for a noun": _classes_are_named_for_nouns,
    "lines end plainly": _lines_end_plainly,
    "tests do not wait": _tests_do_not_wait,
    "tests live with the tested": _tests_live_with_the_tested,
    "values are frozen": _values_are_frozen,
}
