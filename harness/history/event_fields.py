"""The fields of each kind of event, their types, which of them are required; and their JSON Schema.

The table of `docs/reference/history.md` (Events) as data. `well_formed` names every missing and ill-typed field of
one line and returns an event only if there is none; the rules between events are in `rules`. A field with a `claim` is
an unknown field, and ignored, unless the header makes that claim. The schema (draft 07) accepts what the reader
accepts if all claims are made, except that JSON Schema counts `1.0` as an integer and cannot see duplicate keys.
`python -m harness.history.event_fields` regenerates the schema file; a test fails if that is stale.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import NoneType
from typing import Any, Literal, NamedTuple, Self

from harness.history import event as events
from harness.history.event import Event
from harness.history.header import VERSION, Header, header_schema
from harness.history.values import shown

_Claim = Literal["explained", "retry", "versions"]
Claims = frozenset[_Claim]
"""The claims of a header that decide which fields of its events are read."""
ALL_CLAIMS: Claims = frozenset({"explained", "retry", "versions"})


def claims_of(header: Header | None) -> Claims:
    """The claims that `header` makes; None, an unreadable header, makes none."""
    if header is None:
        return frozenset()
    made: dict[_Claim, bool] = {
        "explained": header.explained is not None,
        "retry": header.operator.retry is not None,
        "versions": header.versions,
    }
    return frozenset(claim for claim, is_made in made.items() if is_made)


class FieldType(NamedTuple):
    """A type of field: the test of a value, the name for messages, and the JSON Schema."""

    holds: Callable[[Any], bool]
    name: str
    schema: Mapping[str, Any]
    at_once: frozenset[type] = frozenset()
    """Python types all of whose values pass, so that most fields need no call of `holds`."""


def _is_int(value: object) -> bool:
    return type(value) is int


def _is_id(value: object) -> bool:
    return type(value) is int or isinstance(value, str)


def _is_w(value: object) -> bool:
    return type(value) is int or value == "end"


def at_least(low: int) -> FieldType:
    """The type of an integer of at least `low`."""
    return FieldType(
        lambda value: type(value) is int and value >= low,
        f"an integer of at least {low}",
        {"type": "integer", "minimum": low},
    )


def one_of(*words: str) -> FieldType:
    """The type of a string that is one of `words`."""
    said = ", ".join(f'"{word}"' for word in words[:-1]) + f' or "{words[-1]}"'
    return FieldType(lambda value: isinstance(value, str) and value in words, said, {"enum": list(words)})


def _is_element(value: object) -> bool:
    if not isinstance(value, dict) or ("id" in value) == ("w" in value):
        return False
    if "id" in value:
        return _is_id(value["id"])
    return _is_w(value["w"]) and _is_int(value.get("pos"))


_ID_SCHEMA = {"type": ["integer", "string"]}
_W_SCHEMA = {"anyOf": [{"type": "integer"}, {"const": "end"}]}
_ELEMENT_SCHEMA = {
    "type": "object",
    "oneOf": [
        {"required": ["id"], "properties": {"id": _ID_SCHEMA, "w": False}},
        {"required": ["w", "pos"], "properties": {"w": _W_SCHEMA, "pos": {"type": "integer"}, "id": False}},
    ],
}

INT = FieldType(_is_int, "an integer", {"type": "integer"}, frozenset({int}))
INT_OR_NULL = FieldType(
    lambda value: value is None or type(value) is int,
    "an integer or null",
    {"type": ["integer", "null"]},
    frozenset({int, NoneType}),
)
TEXT = FieldType(lambda value: isinstance(value, str), "a string", {"type": "string"}, frozenset({str}))
FLAG = FieldType(lambda value: isinstance(value, bool), "true or false", {"type": "boolean"})
_LIST = FieldType(lambda value: isinstance(value, list), "a list", {"type": "array"}, frozenset({list}))
OBJECT = FieldType(lambda value: isinstance(value, dict), "an object", {"type": "object"})
ANY = FieldType(lambda _: True, "any JSON", {}, frozenset({int, str, list, dict}))
_ID = FieldType(_is_id, "an integer or a string", _ID_SCHEMA, frozenset({int, str}))
_W = FieldType(_is_w, 'an integer or "end"', _W_SCHEMA, frozenset({int}))
_ELEMENTS = FieldType(
    lambda value: isinstance(value, list) and all(map(_is_element, value)),
    'a list of {"id": ...} and {"w": ..., "pos": ...}',
    {"type": "array", "items": _ELEMENT_SCHEMA},
)
_SUBTASKS = FieldType(
    lambda value: (
        isinstance(value, list)
        and bool(value)
        and all(type(s) is int and s >= 0 for s in value)
        and len(set(value)) == len(value)
    ),
    "a list of at least one subtask, none twice",
    {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1, "uniqueItems": True},
)
PHASE = one_of("begin", "end")
_RESULT = one_of("ok", "fail", "timeout", "unknown")


_CAUSED = ("failed", "kill", "start", "res")
_CAN = FieldType(
    lambda value: (
        isinstance(value, list) and all(isinstance(kind, str) and kind in _CAUSED for kind in value)
    ),
    "a list of " + ", ".join(f'"{kind}"' for kind in _CAUSED),
    {"type": "array", "items": {"enum": list(_CAUSED)}},
)


class EventField(NamedTuple):
    """One field of a kind of event."""

    type: FieldType
    required: bool = True
    claim: _Claim | None = None
    """The claim of the header without which the field is an unknown one."""


def optional(kind: FieldType) -> EventField:
    return EventField(kind, required=False)


def _claimed(claim: _Claim, kind: FieldType) -> EventField:
    return EventField(kind, required=False, claim=claim)


_EVERYWHERE = {
    "n": EventField(INT),
    "t": EventField(at_least(0)),
    "thread": optional(TEXT),
    "mail": optional(INT),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """One row of the table: the event's struct and its fields."""

    make: type[Event]
    fields: Mapping[str, EventField]

    @classmethod
    def of(cls, make: type[Event], fields: Mapping[str, EventField]) -> Self:
        """The row with these fields and the fields that every event has."""
        return cls(make=make, fields={**_EVERYWHERE, **fields})


_OF = {"s": EventField(at_least(0)), "a": EventField(at_least(1))}
_POS = {"pos": EventField(INT)}
_SAVED = {"c": EventField(INT), "elements": EventField(_ELEMENTS)}
_TRY = {"id": EventField(_ID), "try": EventField(at_least(1)), "nonce": optional(ANY)}
_RECORD = {
    "id": EventField(_ID),
    "key": optional(ANY),
    "ts": optional(INT_OR_NULL),
    "expect": optional(_LIST),
    "part": optional(INT),
    "at": optional(at_least(0)),
}
_OUTCOME = {
    "r": EventField(_RESULT),
    "final": EventField(FLAG),
    "v": optional(_LIST),
    "error": optional(ANY),
    "retry": _claimed("retry", FLAG),
    "ver": _claimed("versions", at_least(0)),
}
_CAUSE = {"by": _claimed("explained", TEXT)}
_EMITTED = {
    "id": EventField(_ID),
    "j": EventField(at_least(0)),
    "v": EventField(ANY),
    "ts": optional(INT_OR_NULL),
}
_EFFECT = {
    "s": EventField(at_least(0)),
    "id": EventField(_ID),
    "token": EventField(INT),
    "seq": EventField(INT),
    "j": optional(INT),
    "v": optional(ANY),
}
_FAULT_BEGIN = {
    "f": EventField(TEXT),
    "phase": EventField(PHASE),
    "stalls": optional(FLAG),
    "can": _claimed("explained", _CAN),
    "s": _claimed("explained", at_least(0)),
}
_FAULT_END = {"f": EventField(TEXT), "phase": EventField(PHASE), "evidence": EventField(OBJECT)}
_ROW = {
    "table": EventField(TEXT),
    "id": EventField(_ID),
    "j": optional(at_least(0)),
    "v": optional(ANY),
    "seq": optional(INT),
    "token": optional(INT),
    "c": optional(INT),
    "error": optional(ANY),
}
_CHANGE = {"phase": EventField(PHASE), "ver": EventField(at_least(1)), "key": optional(ANY)}

KINDS: Mapping[str, _Kind] = {
    "start": _Kind.of(events.Start, {**_OF, "from": EventField(INT_OR_NULL), **_POS, **_CAUSE}),
    "restore": _Kind.of(events.Restore, {**_OF, **_SAVED}),
    "in": _Kind.of(events.In, {**_OF, **_POS, **_RECORD}),
    "wm": _Kind.of(events.Wm, {**_OF, **_POS, "w": EventField(_W)}),
    "call": _Kind.of(events.Call, {**_OF, **_TRY}),
    "res": _Kind.of(events.Res, {**_OF, **_TRY, **_OUTCOME, **_CAUSE}),
    "out": _Kind.of(events.Out, {**_OF, **_EMITTED}),
    "owm": _Kind.of(events.Owm, {**_OF, "w": EventField(_W)}),
    "snap": _Kind.of(events.Snap, {**_OF, **_SAVED, **_POS}),
    "dead": _Kind.of(events.Dead, {**_OF, "id": EventField(_ID)}),
    "failed": _Kind.of(events.Failed, {**_OF, "error": EventField(ANY), "id": optional(_ID), **_CAUSE}),
    "end": _Kind.of(events.End, _OF),
    "ended": _Kind.of(events.Ended, _OF),
    "close": _Kind.of(events.Close, _OF),
    "kill": _Kind.of(events.Kill, {**_OF, **_CAUSE}),
    "done": _Kind.of(events.Done, {"c": EventField(INT)}),
    "abort": _Kind.of(events.Abort, {"c": EventField(INT)}),
    "retire": _Kind.of(events.Retire, {"c": EventField(INT)}),
    "rescale": _Kind.of(
        events.Rescale,
        {"c": EventField(INT), "of": EventField(_SUBTASKS), "to": EventField(_SUBTASKS)},
    ),
    "commit": _Kind.of(
        events.Commit,
        {"s": EventField(at_least(0)), "c": EventField(INT), "a": optional(at_least(1))},
    ),
    "ack": _Kind.of(events.Ack, {**_OF, "c": EventField(INT)}),
    "effect": _Kind.of(events.Effect, _EFFECT),
    "row": _Kind.of(events.Row, _ROW),
    "read": _Kind.of(events.TableRead, {"table": EventField(TEXT), "rows": EventField(at_least(0))}),
    "change": _Kind.of(events.Change, _CHANGE),
    "fault": _Kind.of(events.FaultEvent, _FAULT_BEGIN),
    "giveup": _Kind.of(events.GiveUp, {"why": EventField(ANY)}),
}
ENDED_FAULT = _Kind.of(events.FaultEvent, _FAULT_END)
"""The row of a `fault` with phase `end`; `KINDS` has that of phase `begin`."""
_PYTHON_NAMES = {"from": "from_", "try": "try_"}
"""Fields whose names are Python keywords."""


class LineFields(NamedTuple):
    """The result of checking one line: its kind, its well-typed fields, its complaints."""

    good: dict[str, Any]
    kind: str = ""
    """Empty if the kind is unknown."""
    complaints: Sequence[str] = ()
    event: Event | None = None
    """None if there is any complaint."""


@lru_cache
def _kinds_read(claims: Claims) -> Mapping[str, _Kind]:
    """`KINDS` without the fields whose claim is not made."""
    return {
        name: _Kind(
            make=kind.make,
            fields={field: of for field, of in kind.fields.items() if of.claim in {None, *claims}},
        )
        for name, kind in KINDS.items()
    }


def well_formed(given: Mapping[str, object], claims: Claims) -> LineFields:
    """Check the object of one line against the table, under the claims of its header."""
    name = given.get("k")
    kind = _kinds_read(claims).get(name) if isinstance(name, str) else None
    if kind is None or not isinstance(name, str):
        said = "the event lacks `k`, its kind" if "k" not in given else f"unknown kind of event {shown(name)}"
        good, complaints = check_fields(given, _EVERYWHERE, "an event")
        good |= check_fields(given, _OF, "an event")[0]
        return LineFields(good=good, complaints=[said, *complaints])
    if name == "fault" and given.get("phase") == "end":
        kind = ENDED_FAULT
    good, complaints = check_fields(given, kind.fields, f"`{name}`")
    if complaints:
        return LineFields(kind=name, good=good, complaints=complaints)
    in_python = good
    if not good.keys().isdisjoint(_PYTHON_NAMES):
        in_python = {_PYTHON_NAMES.get(name, name): value for name, value in good.items()}
    return LineFields(kind=name, good=good, event=kind.make(**in_python))


def check_fields(
    given: Mapping[str, object], wanted: Mapping[str, EventField], place: str
) -> tuple[dict[str, Any], list[str]]:
    """The well-typed fields of an object, and the complaints about the others."""
    good: dict[str, Any] = {}
    complaints: list[str] = []
    for name, (kind, required, _) in wanted.items():
        if name not in given:
            if required:
                complaints.append(f"{place} lacks `{name}`, {kind.name}")
        elif type(value := given[name]) in kind.at_once or kind.holds(value):
            good[name] = value
        else:
            complaints.append(f"`{name}` of {place} is {shown(value)}, but must be {kind.name}")
    return good, complaints


SCHEMA_FILE = Path(__file__).resolve().parents[1] / "schemas" / f"history.v{VERSION}.json"


def schema_text() -> str:
    """The content of `SCHEMA_FILE`."""
    return json.dumps(history_schema(), indent=2, ensure_ascii=False) + "\n"


def history_schema() -> dict[str, Any]:
    """The schema of any line, with definitions for the header and each kind of event."""
    events = {name: event_schema(name, kind.fields) for name, kind in KINDS.items() if name != "fault"}
    events["fault-begin"] = event_schema("fault", KINDS["fault"].fields, phase="begin")
    events["fault-end"] = event_schema("fault", ENDED_FAULT.fields, phase="end")
    return line_schema(f"A line of a Floodmark history, version {VERSION}", header_schema(), events)


def line_schema(title: str, header: Mapping[str, object], events: Mapping[str, object]) -> dict[str, Any]:
    """The schema of any line of a history: a header or one of the kinds of `events`."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": title,
        "description": "Line 1 is `#/definitions/header`, every other line `#/definitions/event`.",
        "anyOf": [{"$ref": "#/definitions/header"}, {"$ref": "#/definitions/event"}],
        "definitions": {
            "header": header,
            "event": {"anyOf": [{"$ref": f"#/definitions/{name}"} for name in events]},
            **events,
        },
    }


def event_schema(kind: str, fields: Mapping[str, EventField], **fixed: str) -> dict[str, Any]:
    """The schema of one kind of event; unknown fields are allowed."""
    constants = {name: {"const": value} for name, value in {"k": kind, **fixed}.items()}
    required = ["k", *(name for name, field in fields.items() if field.required)]
    properties = {name: field.type.schema for name, field in fields.items()}
    return {"type": "object", "required": required, "properties": {**properties, **constants}}


def main() -> int:
    """Write `SCHEMA_FILE`."""
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
