"""A page's console sessions: the files that a reader saves, the commands that he types, and what they print.

A fenced block whose first line is a comment with a file's name (`# enrich.py`, `-- sink.sql`) is saved under that
name; a `diff` block that begins with `+++ job.py` changes that file. In a `console` block a line that begins with `$ `
is a command, and what follows is its output, in which `...` stands for anything: a line of its own for any lines,
within a line for any text. Times of real runs, process ids and the names of report folders are not compared.
`<!-- tier: real -->` before a block says which tier of tests executes it; without it tier sweep does, in its own
process, and times are compared too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_BLOCK = re.compile(
    r"^(?:<!-- tier: (?P<tier>\w+) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_NAME = re.compile(r"(?:#|--) ([\w./-]+\.\w+)\n")
_RUN = re.compile(r"\b\d{8}-\d{6}-\d{6}\b")
_OF_A_REAL_RUN = re.compile(r"\b\d+(?:\.\d+)? ?(?:ms|s)\b|\bpid \d+|\bV\d+-[a-z-]+-[0-9a-f]{10}\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A file that the page tells the reader to save."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A change that the page tells the reader to make in a file."""

    name: str
    was: str
    becomes: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """A command of the page with the output that the page shows, and the tier that executes it."""

    line: int
    words: str
    shown: str
    tier: str


def session(page: str) -> Iterator[Saved | Changed | Typed]:
    """What the reader of `page` saves, changes and types, in the page's order."""
    for block in _BLOCK.finditer(page):
        text, tier = block["text"], block["tier"] or "sim"
        if block["language"] == "console":
            first = page.count("\n", 0, block.start("text")) + 1
            yield from _typed(text, first=first, tier=tier)
        elif block["language"] == "diff":
            name, *lines = text.splitlines(keepends=True)
            was, becomes = (
                "".join(line[1:] for line in lines if line[0] in {" ", side}) for side in ("-", "+")
            )
            yield Changed(name=name.split()[1], was=was, becomes=becomes)
        elif named := _NAME.match(text):
            yield Saved(name=named[1], text=text)


def _typed(text: str, *, first: int, tier: str) -> Iterator[Typed]:
    for command in re.finditer(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
        line = first + text.count("\n", 0, command.start())
        yield Typed(line=line, words=command[1], shown=command[2], tier=tier)


def difference(typed: Typed, printed: str) -> str:
    """Where `printed` first differs from what the page shows, in words; empty if it does not."""
    real = typed.tier != "sim"
    shown = _plain(typed.shown, real=real).splitlines()
    text = _plain(printed, real=real)
    if re.fullmatch(_pattern(shown), text):
        return ""
    fitting = next(n for n in range(len(shown), -1, -1) if re.match(_pattern(shown[:n]), text))
    where, line = (
        (typed.line + 1 + fitting, shown[fitting])
        if fitting < len(shown)
        else (typed.line + len(shown), "the end")
    )
    return f"`{typed.words}`: line {where} of the page is not printed: {line}\n--- printed:\n{text}"


def _plain(text: str, *, real: bool) -> str:
    """`text` without what differs from run to run and without blanks at the ends of lines."""
    text = _RUN.sub("RUN", text)
    if real:
        text = _OF_A_REAL_RUN.sub("VARIES", text)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def _pattern(shown: list[str]) -> str:
    """A regular expression of the lines of a page."""
    return "".join(
        r"(?:.*\n)*?" if line.strip() == "..." else ".*".join(map(re.escape, line.split("..."))) + r"\n"
        for line in shown
    )
