"""`--set KEY=VALUE`: sets any field of a scenario from the command line, with the error messages of a file.

Answers to Helm's `--set` and Hydra's overrides. Invariant: the result is validated as a whole, as if the settings had
been written into the file; a setting of an unknown field is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from harness.scenario.mistakes import Mistake, meant, validated
from harness.scenario.model import Scenario
from harness.scenario.own_files import with_own_files
from harness.scenario.yaml_text import (
    FieldPositions,
    Place,
    Problem,
    ScenarioProblems,
    Slip,
    problem_at,
    read_yaml,
)

_SOURCE = "--set"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setting:
    """One parsed `KEY=VALUE`: the parts of its key with their columns, and its value."""

    number: int
    steps: tuple[tuple[str, int], ...]
    value: Any
    value_column: int


def apply_settings(scenario: Scenario, settings: Sequence[str]) -> Scenario:
    """`scenario` with `settings` applied in order; a fault is addressed by its id or its index.

    The `line` of a problem is the number of the setting, from 1.
    """
    return settings_applied(
        scenario.model_dump(mode="json", by_alias=True),
        settings,
        lambda data: validated(with_own_files(data, folder=Path.cwd())),
    )


_T = TypeVar("_T")


def settings_applied(
    data: dict[str, Any], settings: Sequence[str], validate: Callable[[Any], _T | list[Mistake]]
) -> _T:
    """What `validate` makes of `data` with `settings` applied in order. Raises ScenarioProblems with every mistake."""
    places = FieldPositions(values={(): (max(1, len(settings)), 1)})
    slips: list[Slip] = []
    for number, text in enumerate(settings, start=1):
        setting = _parsed(text, number, slips)
        if setting is not None:
            _put(setting, data, places, slips)
    result = validate(data)
    problems = [_problem(slip.place, slip.say, slip.hint, settings) for slip in slips]
    if isinstance(result, list):
        for mistake in result:
            place = places.of(mistake.path, name=mistake.name)
            problems.append(_problem(place, mistake.say, mistake.hint, settings))
    if problems or isinstance(result, list):
        raise ScenarioProblems(sorted(problems, key=lambda problem: (problem.line, problem.column)))
    return result


def _problem(place: Place, say: str, hint: str, settings: Sequence[str]) -> Problem:
    return problem_at(place, file=_SOURCE, lines=settings, say=say, hint=hint)


def _parsed(text: str, number: int, slips: list[Slip]) -> _Setting | None:
    key, equals, written = text.partition("=")
    if not equals or not key.strip():
        say = f"`{text}` is not KEY=VALUE"
        slips.append(Slip(place=(number, 1), say=say, hint="as in workload.records=100"))
        return None
    column = len(key) + 2
    document = read_yaml(written)
    slips += [Slip(place=(number, column + s.place[1] - 1), say=s.say, hint=s.hint) for s in document.slips]
    if document.slips:
        return None
    return _Setting(number=number, steps=_steps(key), value=document.data, value_column=column)


def _steps(key: str) -> tuple[tuple[str, int], ...]:
    column = 1
    steps: list[tuple[str, int]] = []
    for step in key.split("."):
        steps.append((step.strip(), column))
        column += len(step) + 1
    return tuple(steps)


def _put(setting: _Setting, data: dict[str, Any], places: FieldPositions, slips: list[Slip]) -> None:
    """Writes the value into `data`; an unknown field is written too and found by the validation."""
    here: Any = data
    path: tuple[str | int, ...] = ()
    for index, (step, column) in enumerate(setting.steps):
        place = setting.number, column
        found = _key(here, step)
        if isinstance(found, Slip):
            slips.append(Slip(place=place, say=found.say, hint=found.hint))
            return
        path = (*path, found)
        places.keys[path] = place
        if index == len(setting.steps) - 1:
            here[found] = setting.value
            places.values[path] = setting.number, setting.value_column
        elif isinstance(here, dict):
            here = here.setdefault(found, {})
        else:
            here = here[found]


def _key(here: object, step: str) -> str | int | Slip:
    """The field name or index that `step` means in `here`, or a slip."""
    match here:
        case dict():
            return step
        case list():
            return _item(here, step)
        case _:
            return Slip(
                place=(1, 1), say=f"`{step}` would be a field of a plain value", hint="shorten the key"
            )


def _item(items: list[Any], step: str) -> int | Slip:
    ids = [item.get("id") if isinstance(item, dict) else None for item in items]
    if step in ids:
        return ids.index(step)
    if step.isdecimal() and int(step) < len(items):
        return int(step)
    known = [str(name) for name in ids if name is not None] or [str(index) for index in range(len(items))]
    hint = meant(step, known) if known else "this list is empty; set it as a whole"
    return Slip(place=(1, 1), say=f"there is no `{step}` here", hint=hint)
