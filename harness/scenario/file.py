"""Scenario files: reads YAML to a `Scenario`, reports every mistake with line and column, and writes YAML.

Answers to Chaos Mesh's manifests. Invariants: `load` returns a consistent scenario or raises all its problems; reading
what `dump` wrote gives an equal scenario.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from harness.faults.parts.parts import Part
from harness.scenario.catalogue import resolve
from harness.scenario.mistakes import Mistake, validated
from harness.scenario.model import Scenario
from harness.scenario.settings import apply_settings, with_own_files
from harness.scenario.yaml_text import Document, Problem, ScenarioProblems, problem_at, read_yaml
from harness.system.errors import UsageError
from harness.system.json_types import Json

__all__ = [
    "Problem",
    "ScenarioProblems",
    "apply_settings",
    "dump",
    "dump_short",
    "load",
    "load_many",
    "loads",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """One file as read: either a scenario or problems."""

    file: str
    document: Document
    scenario: Scenario | None
    problems: tuple[Problem, ...]


def load(path: str | Path) -> Scenario:
    """Reads the scenario in the file `path`; raises `ScenarioProblems` with all its problems."""
    return _only(_read(Path(path)))


def loads(text: str, *, file: str = "<text>") -> Scenario:
    """Reads the scenario in `text`; problems name `file` as its source."""
    return _only(_reading(text, file))


def load_many(names: Iterable[str | Path]) -> list[Scenario]:
    """The scenarios of files, folders, catalogue names or `all`; raises the problems of all files at once."""
    readings = [_read(path) for path in resolve(names)]
    problems = [problem for reading in readings for problem in reading.problems]
    problems += _same_names(readings)
    if problems:
        raise ScenarioProblems(problems)
    return [reading.scenario for reading in readings if reading.scenario is not None]


def _only(reading: _Reading) -> Scenario:
    if reading.scenario is None:
        raise ScenarioProblems(reading.problems)
    return reading.scenario


def _read(path: Path) -> _Reading:
    try:
        raw = path.read_bytes()
    except OSError as error:
        message = f"the scenario file {path} cannot be read: {error.strerror}"
        raise UsageError(message, fix="name a file that exists and that you may read") from error
    try:
        return _reading(raw.decode("utf-8-sig"), str(path))
    except UnicodeDecodeError as error:
        lines = raw[: error.start].decode("utf-8", "replace").split("\n")
        place, say, hint = (len(lines), len(lines[-1]) + 1), "this is not UTF-8 text", "save it as UTF-8"
        problem = problem_at(place, file=str(path), lines=lines, say=say, hint=hint)
        return _Reading(file=str(path), document=Document(lines=lines), scenario=None, problems=(problem,))


@lru_cache(maxsize=512)
def _reading(text: str, file: str) -> _Reading:
    """Values only, so a text that is read again (a catalogue, for each of its tests) is parsed once a process."""
    document = read_yaml(text)
    found: Scenario | list[Mistake] = []
    if document.data is None and not document.slips:
        hint = "docs/reference/scenarios.md shows an example"
        found = [Mistake(path=(), say="this holds no scenario", hint=hint)]
    elif not document.broken:
        found = validated(with_own_files(document.data, folder=Path(file).parent.absolute()))
    scenario = None if isinstance(found, list) else found
    mistakes = found if isinstance(found, list) else []
    problems = [
        problem_at(slip.place, file=file, lines=document.lines, say=slip.say, hint=slip.hint)
        for slip in document.slips
    ]
    problems += [_problem(mistake, document, file) for mistake in mistakes]
    problems.sort(key=lambda problem: (problem.line, problem.column))
    return _Reading(
        file=file,
        document=document,
        scenario=None if problems else scenario,
        problems=tuple(problems),
    )


def _problem(mistake: Mistake, document: Document, file: str) -> Problem:
    place = document.places.of(mistake.path, name=mistake.name)
    return problem_at(place, file=file, lines=document.lines, say=mistake.say, hint=mistake.hint)


def _same_names(readings: list[_Reading]) -> list[Problem]:
    """A scenario name may be used once only, because reports identify scenarios by name."""
    first: dict[str, _Reading] = {}
    problems: list[Problem] = []
    for reading in readings:
        if reading.scenario is None:
            continue
        name = reading.scenario.scenario
        if name in first:
            mistake = Mistake(
                path=("scenario",),
                say=f"the name `{name}` is taken by {first[name].file}",
                hint="give this one its own name",
            )
            problems.append(_problem(mistake, reading.document, reading.file))
        first.setdefault(name, reading)
    return problems


def dump(scenario: Scenario) -> str:
    """The YAML form with every field, defaults included, so that it stays the same if a default changes."""
    return _written(_laid_out(scenario.model_dump(mode="json", by_alias=True)))


def dump_short(scenario: Part) -> str:
    """The YAML form without defaults, with small sections and faults on one line each: for people."""
    data = scenario.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    laid = _laid_out(data)
    for name in ("operator", "workload", "task", "rescale", "expects", "choices", "shows"):
        part = laid.get(name)
        if isinstance(part, dict) and not any(isinstance(value, dict | list) for value in part.values()):
            laid[name] = _on_one_line(part)
    choices = laid.get("choices", {})
    if "calls" in choices:
        choices["calls"] = [_on_one_line(call) for call in choices["calls"]]
    for index, fault in enumerate(laid.get("faults", [])):
        laid["faults"][index] = _on_one_line(fault)
    return _written(laid)


def _on_one_line(part: Mapping[str, object]) -> CommentedMap:
    laid = CommentedMap(part)
    laid.fa.set_flow_style()
    return laid


def _written(laid: CommentedMap) -> str:
    writer = YAML()
    writer.width = 4096
    writer.indent(mapping=2, sequence=4, offset=2)
    text = io.StringIO()
    writer.dump(laid, text)
    return text.getvalue()


def _laid_out(data: Json) -> CommentedMap:
    """Triggers and short lists on one line, as in the shipped files."""
    laid = CommentedMap(_quoted(data))
    for name in ("tags", "levels", "decisive"):
        if name in laid:
            laid[name] = CommentedSeq(laid[name])
            laid[name].fa.set_flow_style()
    for fault in laid.get("faults", []):
        fault["when"] = _on_one_line(fault["when"])
    return laid


def _quoted(value: object) -> object:
    """Quotes what ruamel.yaml would write so that it reads back as another text: U+0085; `?` and `:` in front."""
    match value:
        case dict():
            return {_quoted(name): _quoted(inner) for name, inner in value.items()}
        case list():
            return [_quoted(item) for item in value]
        case str() if not value.isprintable() or value.startswith(("?", ":")):
            return DoubleQuotedScalarString(value)
        case _:
            return value
