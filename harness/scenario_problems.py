"""What is wrong with a scenario as it is written: each problem with its place, an excerpt and a way out.

Answers to a compiler's diagnostics. Invariant: a problem names a line and column that exist, and a list of
them is complete: nothing stays hidden until the first is mended.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from harness.errors import ScenarioError

__all__ = ["Path", "Place", "Places", "Problem", "ScenarioProblems", "problem_at"]

Path = tuple[str | int, ...]
"""Where a field is inside a scenario: `("faults", 0, "when", "at")`."""

Place = tuple[int, int]
"""Line and column, both from 1."""

_EXCERPT_WIDTH_MAX = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One mistake, where it is, and what to do about it."""

    file: str
    line: int
    column: int
    excerpt: str
    """The line itself, and below it a caret under the column."""
    say: str
    hint: str = ""

    def __str__(self) -> str:
        parts = [f"{self.file}:{self.line}:{self.column}: {self.say}", *self._gutter()]
        return "\n".join([*parts, *([f"    {self.hint}"] if self.hint else [])])

    def _gutter(self) -> list[str]:
        number = str(self.line)
        lines = self.excerpt.splitlines()
        margins = [f"  {number} | ", f"  {' ' * len(number)} | "]
        return [margin + line for margin, line in zip(margins, lines, strict=False)]


class ScenarioProblems(ScenarioError):
    """Everything that is wrong with the scenarios that were asked for, file by file."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        files = len({problem.file for problem in self.problems})
        count = f"{len(self.problems)} problem{'s' * (len(self.problems) != 1)}"
        heading = f"{count} in {files} scenario files" if files > 1 else count
        super().__init__("\n\n".join([heading, *map(str, self.problems)]))


@dataclass(slots=True, kw_only=True)
class Places:
    """Where each field was written: its name (`keys`), its value (`values`). Mutable: filled by a reader."""

    keys: dict[Path, Place] = field(default_factory=dict)
    values: dict[Path, Place] = field(default_factory=dict)

    def of(self, path: Path, *, name: bool = False) -> Place:
        """The place of the field at `path`, or of the nearest part around it that was written."""
        if path in self.values and not (name and path in self.keys):
            return self.values[path]
        for length in range(len(path), -1, -1):
            around = self.keys.get(path[:length]) or self.values.get(path[:length])
            if around is not None:
                return around
        return 1, 1


def problem_at(place: Place, *, file: str, lines: Sequence[str], say: str, hint: str = "") -> Problem:
    """A problem at `place` of a text, with its excerpt."""
    line, column = place
    text = lines[line - 1] if 0 < line <= len(lines) else ""
    excerpt = _excerpt(text, column)
    return Problem(file=file, line=line, column=column, excerpt=excerpt, say=_plain(say), hint=_plain(hint))


def _excerpt(text: str, column: int) -> str:
    """The line (a window of it, if long) with a caret; a terminal's control characters are not passed on."""
    first = max(0, column - _EXCERPT_WIDTH_MAX) if len(text) > _EXCERPT_WIDTH_MAX else 0
    window = _plain(text[first : first + _EXCERPT_WIDTH_MAX])
    return f"{window}\n{' ' * (column - 1 - first)}^"


def _plain(text: str) -> str:
    return "".join(char if char.isprintable() else " " if char.isspace() else "?" for char in text)
