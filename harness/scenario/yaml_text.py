"""Reads YAML text to plain data, with the line and column of every field and every mistake.

Uses ruamel.yaml's nodes (YAML 1.2), because its constructors drop the positions. Invariants: the data is JSON-like;
anchors and tags are refused; each problem has an existing line and column; all problems are reported at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, StringMark, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from harness.system.errors import ScenarioError

Path = tuple[str | int, ...]
"""The path of a field inside a scenario, such as `("faults", 0, "when", "at")`."""

Place = tuple[int, int]
"""Line and column, both counted from 1."""

_EXCERPT_WIDTH_MAX = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One mistake: where it is, what is wrong, and what to do."""

    file: str
    line: int
    column: int
    excerpt: str
    """The line, and below it a caret under the column."""
    say: str
    hint: str = ""

    def __str__(self) -> str:
        number = str(self.line)
        lines = zip((number, " " * len(number)), self.excerpt.splitlines(), strict=False)
        shown = [f"  {margin} | {line}" for margin, line in lines]
        hint = [f"    {self.hint}"] if self.hint else []
        return "\n".join([f"{self.file}:{self.line}:{self.column}: {self.say}", *shown, *hint])


class ScenarioProblems(ScenarioError):
    """All problems of the requested scenarios, file by file."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        files = len({problem.file for problem in self.problems})
        count = f"{len(self.problems)} problem{'s' * (len(self.problems) != 1)}"
        heading = f"{count} in {files} scenario files" if files > 1 else count
        super().__init__("\n\n".join([heading, *map(str, self.problems)]))


@dataclass(slots=True, kw_only=True)
class FieldPositions:
    """The positions of field names (`keys`) and values (`values`). Mutable: filled by a reader."""

    keys: dict[Path, Place] = field(default_factory=dict)
    values: dict[Path, Place] = field(default_factory=dict)

    def of(self, path: Path, *, name: bool = False) -> Place:
        """The position of the field at `path`, or of the nearest enclosing part that was written."""
        if path in self.values and not (name and path in self.keys):
            return self.values[path]
        for length in range(len(path), -1, -1):
            around = self.keys.get(path[:length]) or self.values.get(path[:length])
            if around is not None:
                return around
        return 1, 1


def problem_at(place: Place, *, file: str, lines: Sequence[str], say: str, hint: str = "") -> Problem:
    """A problem at `place` of a text, with its line, or a part of a long one, and a caret."""
    line, column = place
    text = lines[line - 1] if 0 < line <= len(lines) else ""
    first = max(0, column - _EXCERPT_WIDTH_MAX) if len(text) > _EXCERPT_WIDTH_MAX else 0
    excerpt = f"{_plain(text[first : first + _EXCERPT_WIDTH_MAX])}\n{' ' * (column - 1 - first)}^"
    return Problem(file=file, line=line, column=column, excerpt=excerpt, say=_plain(say), hint=_plain(hint))


def _plain(text: str) -> str:
    return "".join(char if char.isprintable() else " " if char.isspace() else "?" for char in text)


_STANDARD = "tag:yaml.org,2002:"
_TEXTS = {f"{_STANDARD}{name}" for name in ("str", "timestamp", "merge", "value")}
"""Tags of plain scalars that are read as text: YAML 1.2 has no dates, and scenarios no merge keys."""
_SCALARS = {f"{_STANDARD}{name}" for name in ("null", "bool", "int", "float")}
_BREAKS = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_DEPTH_MAX = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Slip:
    """A mistake in the YAML text itself."""

    place: Place
    say: str
    hint: str = ""


@dataclass(slots=True, kw_only=True)
class Document:
    """The data of a text, with positions and mistakes. Mutable: filled while reading."""

    lines: list[str]
    data: Any = None
    places: FieldPositions = field(default_factory=FieldPositions)
    slips: list[Slip] = field(default_factory=list)
    broken: bool = False
    """Whether the text is not YAML at all, so that `data` is meaningless."""


def read_yaml(text: str) -> Document:
    """Reads one document; every mistake of the text is in `slips`."""
    document = Document(lines=_BREAKS.split(text))
    try:
        root = YAML(typ="safe", pure=True).compose(text)
    except (YAMLError, RecursionError, ValueError) as error:
        document.broken = True
        document.slips.append(_not_yaml(error, text))
        return document
    if root is not None:
        document.data = _Reader(document).value(root, ())
    return document


def _not_yaml(error: Exception, text: str) -> Slip:
    """The mistake for a text that is not YAML, in ruamel's words with our positions."""
    match error:
        case MarkedYAMLError(problem_mark=StringMark() as mark):
            context = f" ({error.context})" if error.context else ""
            say = f"this is not YAML: {error.problem or error.context}{context if error.problem else ''}"
            cures = (cure for sign, cure in _CURES.items() if sign in str(error.problem))
            return Slip(place=_place(mark), say=say, hint=next(cures, ""))
        case ReaderError():
            before = _BREAKS.split(text[: error.position])
            shown = chr(error.character) if isinstance(error.character, int) else error.character
            say = f"character {shown!r} is not allowed in YAML"
            return Slip(place=(len(before), len(before[-1]) + 1), say=say, hint="take it out")
        case RecursionError():
            return Slip(place=(1, 1), say="this is nested too deeply to be a scenario")
        case _:
            return Slip(place=(1, 1), say=f"this is not YAML: {error}")


_CURES = {
    "another document": "one file holds one scenario: split it",
    "undefined alias": "put a text that begins with `*` into quotes",
    "'\\t'": "indent with spaces, not with tabs",
    "mapping values are not allowed": "put a text that holds `: ` into quotes, or mend the indentation",
}


def _place(mark: StringMark) -> Place:
    return mark.line + 1, mark.column + 1


class _Reader:
    """Walks the nodes once and records positions and mistakes in its document."""

    def __init__(self, document: Document) -> None:
        self._places = document.places
        self._slips = document.slips
        self._scalars = YAML(typ="safe", pure=True).constructor

    def value(self, node: Node, path: Path) -> Any:
        """The plain value of `node`; None with a slip if it has none."""
        self._places.values[path] = _place(node.start_mark)
        if node.anchor is not None:
            return self._slip(node, "anchors and aliases are not used in scenarios", "write the value out")
        if len(path) > _DEPTH_MAX:
            return self._slip(node, "this is nested too deeply to be a scenario", "")
        match node:
            case MappingNode():
                return dict(self._fields(node, path))
            case SequenceNode():
                return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
            case _:
                return self._scalar(node)

    def _fields(self, node: MappingNode, path: Path) -> Iterator[tuple[str, object]]:
        for key, value in node.value:
            if not isinstance(key, ScalarNode) or str(key.tag) not in _TEXTS:
                self._slip(key, "a field's name is a text", "put it into quotes")
                continue
            inside = (*path, key.value)
            if inside in self._places.keys:
                line, _ = self._places.keys[inside]
                self._slip(key, f"`{key.value}` is written twice: first in line {line}", "take one out")
                continue
            self._places.keys[inside] = _place(key.start_mark)
            yield key.value, self.value(value, inside)

    def _scalar(self, node: Node) -> Any:
        tag = str(node.tag)
        if tag in _TEXTS:
            return node.value
        if tag not in _SCALARS:
            shown = tag.removeprefix(_STANDARD)
            return self._slip(node, f"tags such as `{shown}` are not used in scenarios", "take it out")
        try:
            return self._scalars.construct_object(node)
        except (YAMLError, ValueError):
            return self._slip(node, "this is no value that YAML knows", "put it into quotes, if it is a text")

    def _slip(self, node: Node, say: str, hint: str) -> None:
        self._slips.append(Slip(place=_place(node.start_mark), say=say, hint=hint))
