"""`--set KEY=VALUE`: sets any field of a scenario from the command line, with the error messages of a file.

Answers to Helm's `--set` and Hydra's overrides. Invariant: the result is validated as a whole, as if the settings had
been written into the file; a setting of an unknown field is an error.

The files of a user's own that a scenario names (`schema`, `data`, `records`): their paths and counts.

Invariant: in a scenario that was read, paths are absolute, relative to the file that names them, and `workload.records`
is what the subtask with the most records of the file gets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from harness.faults.parts.own_records import dealt, read_records
from harness.scenario.mistakes import Mistake, meant, validated
from harness.scenario.model import Scenario
from harness.scenario.yaml_text import (
    FieldPositions,
    Place,
    Problem,
    ScenarioProblems,
    Slip,
    problem_at,
    read_yaml,
)
from harness.system.errors import UsageError
from harness.system.json_types import Json

_SUBTASKS = 2
"""The default of `workload.subtasks`."""


def with_asked_files(
    scenario: Scenario,
    *,
    schema: Path | None = None,
    data: Sequence[Path] = (),
    records: Path | None = None,
    sql: str | None = None,
) -> Scenario:
    """`scenario` with the files and the `sql` of the command line in place of its own. Raises UsageError."""
    asked = {
        **({} if schema is None else {"schema": str(schema)}),
        **({"data": [str(path) for path in data]} if data else {}),
        **({} if records is None else {"records": str(records)}),
        **({} if sql is None else {"sql": sql}),
    }
    if not asked:
        return scenario
    plain = {**scenario.model_dump(mode="json", by_alias=True), **asked}
    found = validated(with_own_files(plain, folder=Path.cwd()))
    if isinstance(found, Scenario):
        return found
    options = ", ".join(f"--{name}" for name in asked)
    message = f"scenario {scenario.scenario} with {options}: {'; '.join(mistake.say for mistake in found)}"
    raise UsageError(message, fix="; ".join(dict.fromkeys(mistake.hint for mistake in found if mistake.hint)))


def with_own_files(data: object, *, folder: Path) -> object:
    """Plain data of a scenario with absolute paths, of which relative ones stand for files in `folder`.

    The counts of `records` replace `workload.records`, and bound `expects.records`. Raises UsageError if the records
    cannot be read.
    """
    if not isinstance(data, Mapping) or not {"schema", "data", "records"} & set(data):
        return data
    found = dict(data)
    for name in ("schema", "records"):
        if isinstance(found.get(name), str):
            found[name] = str(folder / found[name])
    if isinstance(found.get("data"), str):
        found["data"] = [found["data"]]
    if isinstance(found.get("data"), list):
        found["data"] = [str(folder / one) if isinstance(one, str) else one for one in found["data"]]
    return _counted(found) if isinstance(found.get("records"), str) else found


def _counted(data: Json) -> Json:
    records = read_records(data["records"])
    workload, expects = data.get("workload", {}), data.get("expects")
    if not isinstance(workload, Mapping):
        return data
    subtasks = workload.get("subtasks", _SUBTASKS)
    if isinstance(subtasks, int) and subtasks > 0:
        data["workload"] = {**workload, "records": max(map(len, dealt(records, subtasks=subtasks)))}
    if isinstance(expects, Mapping) and isinstance(expects.get("records"), int):
        data["expects"] = {**expects, "records": min(expects["records"], len(records))}
    return data


_SOURCE = "--set"


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
    data: Json, settings: Sequence[str], validate: Callable[[object], _T | list[Mistake]]
) -> _T:
    """What `validate` makes of `data` with `settings` applied in order. Raises ScenarioProblems with every mistake."""
    places = FieldPositions(values={(): (max(1, len(settings)), 1)})
    slips: list[Slip] = []
    for number, text in enumerate(settings, start=1):
        _apply(text, number, data, places, slips)
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


def _apply(text: str, number: int, data: Json, places: FieldPositions, slips: list[Slip]) -> None:
    """Writes one value into `data`; an unknown field is written too and found by the validation."""
    key, equals, written = text.partition("=")
    if not equals or not key.strip():
        say = f"`{text}` is not KEY=VALUE"
        slips.append(Slip(place=(number, 1), say=say, hint="as in workload.records=100"))
        return
    value_column = len(key) + 2
    document = read_yaml(written)
    slips += [
        Slip(place=(number, value_column + slip.place[1] - 1), say=slip.say, hint=slip.hint)
        for slip in document.slips
    ]
    if document.slips:
        return
    here: Any = data
    path: tuple[str | int, ...] = ()
    column, last = 1, key.count(".")
    for index, step in enumerate(key.split(".")):
        place = number, column
        column += len(step) + 1
        found = step.strip() if isinstance(here, dict) else _item(here, step.strip())
        if isinstance(found, Slip):
            slips.append(Slip(place=place, say=found.say, hint=found.hint))
            return
        path = (*path, found)
        places.keys[path] = place
        if index == last:
            here[found] = document.data
            places.values[path] = number, value_column
        elif isinstance(here, dict):
            here = here.setdefault(found, {})
        else:
            here = here[found]


def _item(here: object, step: str) -> int | Slip:
    """The index that `step` means in `here`, or a slip."""
    if not isinstance(here, list):
        say = f"`{step}` would be a field of a plain value"
        return Slip(place=(1, 1), say=say, hint="shorten the key")
    ids = [item.get("id") if isinstance(item, dict) else None for item in here]
    if step in ids:
        return ids.index(step)
    if step.isdecimal() and int(step) < len(here):
        return int(step)
    known = [str(name) for name in ids if name is not None] or [str(index) for index in range(len(here))]
    hint = meant(step, known) if known else "this list is empty; set it as a whole"
    return Slip(place=(1, 1), say=f"there is no `{step}` here", hint=hint)
