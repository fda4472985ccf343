"""Validates plain data as a `Scenario`, or returns all its mistakes in plain sentences.

Answers to chaostoolkit's validation, which stops at the first error. Invariant: each mistake is one sentence at one
field, whatever error pydantic raised; for an unknown name it suggests existing names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from harness.faults.parts.parts import Part
from harness.faults.parts.triggers import TRIGGER_FORMS, TRIGGERS
from harness.faults.registry import FAULTS
from harness.scenario.model import Scenario
from harness.scenario.rules import breaches, standing
from harness.scenario.yaml_text import Path

_SHOWN_MAX = 40
_NAMED_MAX = 6
"""A hint lists at most this many kinds."""
_TAGS = frozenset(
    {"<fail>", "<nothing>", "<dead-letter>", "<results>", *(f"<{name}>" for name in (*TRIGGERS, *FAULTS))}
)
"""Elements of a pydantic error location that select a union member and are no field."""
_SAME_BUT_PLAIN = {
    "a valid tuple": "a list",
    "a valid list": "a list",
    "a valid integer": "a whole number",
    "a valid string": "a text",
    "a valid boolean": "true or false",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """One mistake at the field `path`; `name`: the field's name is wrong, not its value."""

    path: Path
    say: str
    hint: str = ""
    name: bool = False


def validated(data: object) -> Scenario | list[Mistake]:
    """The scenario that `data` describes, or the list of its mistakes."""
    try:
        return Scenario.model_validate(data)
    except ValidationError as error:
        told = mistakes_in(error, data, root=Scenario)
        # Between valid parts pydantic looks only if all fields are valid.
        broken = breaches(standing(data)) if isinstance(data, Mapping) else ()
        of_rules = [Mistake(path=one.path, say=one.say, hint=one.hint) for one in broken]
        return [*told, *(mistake for mistake in of_rules if mistake not in told)]


def mistakes_in(error: ValidationError, data: object, *, root: type[Part]) -> list[Mistake]:
    """The mistakes of `data` in its fields, as pydantic found them when it validated `root`."""
    return [
        _TOLD.get(details["type"], _other)(_path(details["loc"], data), data, details, root)
        for details in error.errors(include_url=False)
    ]


def _rule(path: Path, _data: object, error: ErrorDetails, _root: type[Part]) -> Mistake:
    return Mistake(path=path, say=error["ctx"]["say"], hint=error["ctx"]["hint"])


def _written(path: Path, data: object, error: ErrorDetails, _root: type[Part]) -> Mistake:
    return Mistake(path=path, say=f"`{dotted(path, data)}`: {error['ctx']['say']}", hint=error["ctx"]["hint"])


def _unknown_field(path: Path, data: object, _error: ErrorDetails, root: type[Part]) -> Mistake:
    name = str(path[-1])
    kind = _kind_at(path[:-1], data)
    if kind is not None:
        return _not_of_this_kind(path, kind, name)
    fields = _fields_at(path[:-1], root)
    parts = ((part,) for part, field in root.model_fields.items() if _only_part(field.annotation) is not None)
    elsewhere = next(
        (where for where in parts if name in _fields_at(where, root) and where != path[:-1]), None
    )
    if not get_close_matches(name, fields) and elsewhere:
        hint = f"it belongs to `{'.'.join(map(str, elsewhere))}`"
    else:
        hint = meant(name, fields)
    return Mistake(path=path, say=f"unknown field `{name}`", hint=hint, name=True)


def _not_of_this_kind(path: Path, kind: str, name: str) -> Mistake:
    """A field that faults of this kind do not have; names the kinds that have it."""
    owners = [other for other, fault in FAULTS.items() if name in (*fault.needs(), *fault.takes())]
    if not owners:
        hint = meant(name, _fields_of(FAULTS[kind]))
        return Mistake(path=path, say=f"unknown field `{name}`", hint=hint, name=True)
    others = f"; it belongs to {', '.join(owners)}" if len(owners) <= _NAMED_MAX else ""
    return Mistake(path=path, say=f"`{kind}` takes no `{name}`", hint=f"take it out{others}")


def _missing(path: Path, data: object, _error: ErrorDetails, root: type[Part]) -> Mistake:
    kind = _kind_at(path[:-1], data)
    if kind is not None and path[-1] in FAULTS[kind].needs():
        fields = FAULTS[kind].model_fields.items()
        own = (field for name, field in fields if (field.alias or name) == path[-1])
        example = next((field.examples[0] for field in own if field.examples), "...")
        hint = f"add `{path[-1]}: {example}`, say"
        return Mistake(path=path, say=f"`{kind}` needs `{path[-1]}`", hint=hint)
    around = (
        f"`{dotted(path[:-1], data)}`"
        if len(path) > 1
        else "the scenario"
        if root is Scenario
        else "the file"
    )
    model = _model_at(path[:-1], root)
    field = model.model_fields.get(str(path[-1])) if model else None
    described = f": {field.description}" if field and field.description else ""
    hint = f"add `{path[-1]}`{described}"
    return Mistake(path=path, say=f"{around} lacks `{path[-1]}`", hint=hint, name=True)


def _no_trigger(path: Path, _data: object, error: ErrorDetails, _root: type[Part]) -> Mistake:
    given = error["input"]
    *others, last = TRIGGER_FORMS.values()
    forms = f"{', '.join(others)} or {last}"
    if not isinstance(given, Mapping):
        return Mistake(
            path=path, say=f"`when` is a mapping, not {_shown(given)}", hint=f"write one of {forms}"
        )
    known = [name for name in TRIGGERS if name in given]
    if len(known) > 1:
        say = f"`when` holds {len(known)} triggers ({', '.join(known)}), and a fault begins by one"
        return Mistake(path=path, say=say, hint="take all but one out")
    close = [match for name in given for match in get_close_matches(str(name), TRIGGERS, n=1)]
    hint = f"did you mean `{close[0]}`? " if close else ""
    return Mistake(path=path, say="`when` holds no trigger", hint=f"{hint}write one of {forms}")


def _no_fault(path: Path, data: object, error: ErrorDetails, root: type[Part]) -> Mistake:
    """A fault without `do`, or with an unknown one."""
    given = error["input"]
    if not isinstance(given, Mapping):
        return _no_mapping(path, data, error, root)
    do = given.get("do")
    if do is None:
        return _missing((*path, "do"), data, error, root)
    say = f"`{dotted((*path, 'do'), data)}` cannot be {_shown(do)}"
    return Mistake(path=(*path, "do"), say=say, hint=meant(str(do), list(FAULTS)))


def _not_a_choice(path: Path, data: object, error: ErrorDetails, _root: type[Part]) -> Mistake:
    expected = error["ctx"]["expected"]
    kind = _kind_at(path[:-1], data)
    match kind, path[-1]:
        case str(), "how":
            say = f"`{kind}` has no variant `{error['input']}`"
            return Mistake(
                path=path, say=say, hint=f"write {', '.join(map(str, FAULTS[kind].choices('how')))}"
            )
        case str(), "code":
            say = f"`{kind}` cannot answer {_shown(error['input'])}"
            return Mistake(
                path=path, say=say, hint=f"write {', '.join(map(str, FAULTS[kind].choices('code')))}"
            )
    allowed = re.findall(r"'([^']*)'", expected) or [expected]
    say = f"`{dotted(path, data)}` cannot be {_shown(error['input'])}"
    return Mistake(path=path, say=say, hint=meant(str(error["input"]), allowed))


def _no_mapping(path: Path, data: object, error: ErrorDetails, root: type[Part]) -> Mistake:
    name = f"`{dotted(path, data)}`" if path else "a scenario" if root is Scenario else "the file"
    hint = f"its fields are {', '.join(_fields_at(path, root))}"
    return Mistake(path=path, say=f"{name} is a mapping of fields, not {_shown(error['input'])}", hint=hint)


def _not_the_pattern(path: Path, data: object, error: ErrorDetails, _root: type[Part]) -> Mistake:
    """A name with invalid characters; only names have a pattern."""
    say = f"`{dotted(path, data)}` cannot be {_shown(error['input'])}"
    return Mistake(path=path, say=say, hint="lower case letters, digits and dashes, a letter first")


def _other(path: Path, data: object, error: ErrorDetails, _root: type[Part]) -> Mistake:
    """Any other pydantic error, as a sentence about the field."""
    say = re.sub(r"^(Input|List|Tuple|String|Value) ", "", error["msg"])
    for theirs, ours in _SAME_BUT_PLAIN.items():
        say = say.replace(theirs, ours)
    shown = "" if ", not " in say else f", not {_shown(error['input'])}"
    return Mistake(path=path, say=f"`{dotted(path, data)}` {say}{shown}")


_TOLD: dict[str, Callable[[Path, object, ErrorDetails, type[Part]], Mistake]] = {
    "rule": _rule,
    "written": _written,
    "extra_forbidden": _unknown_field,
    "missing": _missing,
    "trigger": _no_trigger,
    "fault": _no_fault,
    "literal_error": _not_a_choice,
    "model_type": _no_mapping,
    "string_pattern_mismatch": _not_the_pattern,
}
"""The function that words each type of pydantic error; `_other` words the rest."""


def meant(name: str, known: Sequence[str]) -> str:
    """The hint for an unknown name: the nearest existing one, or all of them."""
    close = get_close_matches(name, known, n=1) or get_close_matches(name.lower(), known, n=1)
    return f"did you mean `{close[0]}`?" if close else f"choose from {', '.join(known)}"


def dotted(path: Path, data: object) -> str:
    """The path as written in `--set`; a fault is named by its id, if it has one."""
    steps: list[str] = []
    here = data
    for step in path:
        here = _inside(here, step)
        named = isinstance(step, int) and isinstance(here, Mapping) and isinstance(here.get("id"), str)
        steps.append(str(here["id"]) if named and isinstance(here, Mapping) else str(step))
    return ".".join(steps)


def _path(loc: tuple[int | str, ...], data: object) -> Path:
    """The path in the data for a pydantic error location; its last element may be a missing field."""
    steps: list[int | str] = []
    here = data
    for position, step in enumerate(loc):
        inside = _inside(here, step)
        missing = position == len(loc) - 1 and isinstance(here, Mapping)
        if step in _TAGS or (inside is _NOTHING and not missing):
            continue
        steps.append(step)
        here = inside
    return tuple(steps)


_NOTHING = object()


def _inside(here: object, step: str | int) -> object:
    match here, step:
        case Mapping(), str():
            return here.get(step, _NOTHING)
        case list(), int() if 0 <= step < len(here):
            return here[step]
        case _:
            return _NOTHING


def _shown(value: object) -> str:
    """A value as JSON, shortened."""
    if value is None:
        return "nothing"
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= _SHOWN_MAX else f"{text[: _SHOWN_MAX - 3]}..."


def _fields_at(path: Path, root: type[Part]) -> tuple[str, ...]:
    if path and path[-1] == "when":
        return tuple(dict.fromkeys(name for kind in TRIGGERS.values() for name in kind.model_fields))
    model = _model_at(path, root)
    return () if model is None else _fields_of(model)


def _fields_of(part: type[Part]) -> tuple[str, ...]:
    return tuple(field.alias or name for name, field in part.model_fields.items())


def _kind_at(path: Path, data: object) -> str | None:
    """The kind of the fault at `path`; None: there is no fault of a known kind."""
    match path, data:
        case ("faults", int(index)), {"faults": [*faults]} if index < len(faults):
            do = faults[index].get("do") if isinstance(faults[index], Mapping) else None
            return do if isinstance(do, str) and do in FAULTS else None
        case _:
            return None


def _model_at(path: Path, root: type[Part]) -> type[Part] | None:
    """The part of the model at `path`; None for a plain value or a union."""
    here: type[Part] | None = root
    for step in path:
        if here is None:
            return None
        if isinstance(step, str):
            field = here.model_fields.get(step)
            here = _only_part(field.annotation) if field else None
    return here


def _only_part(annotation: object) -> type[Part] | None:
    parts = list(_parts_in(annotation))
    return parts[0] if len(parts) == 1 else None


def _parts_in(annotation: object) -> Iterator[type[Part]]:
    if isinstance(annotation, type) and issubclass(annotation, Part):
        yield annotation
    for argument in get_args(annotation):
        yield from _parts_in(argument)
