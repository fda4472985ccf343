"""The fields of each kind of event seen from outside, their types, and their JSON Schema.

The table of `docs/reference/history-outside.md` (Events) as data. How many columns an id has, how many values a
row has, and whether rows have a `j`, is what the header says; without a readable header these are not checked.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from harness.history import outside as events
from harness.history.event_fields import (
    ANY,
    FLAG,
    INT,
    INT_OR_NULL,
    OBJECT,
    PHASE,
    TEXT,
    EventField,
    FieldType,
    at_least,
    check_fields,
    one_of,
)
from harness.history.header import VERSION
from harness.history.outside import OutsideEvent, OutsideHeader, outside_header_schema
from harness.history.values import shown


class OutsideLine(NamedTuple):
    """The result of checking one line: its kind, its well-typed fields, its complaints."""

    good: dict[str, Any]
    kind: str = ""
    """Empty if the kind is unknown."""
    complaints: tuple[str, ...] = ()
    event: OutsideEvent | None = None
    """None if there is any complaint."""


_MAKE: Mapping[str, type[OutsideEvent]] = {
    "offer": events.Offer,
    "start": events.JobStart,
    "exit": events.JobExit,
    "fault": events.JobFault,
    "row": events.LogRow,
    "asked": events.AskedLookup,
    "table": events.TableRow,
    "dead": events.DeadLetterRow,
    "read": events.PartRead,
    "finished": events.JobFinished,
    "giveup": events.JobGiveUp,
}
_CELL = {"type": ["integer", "string"]}
_CELL_OR_NULL = {"type": ["integer", "string", "null"]}


def _is_cell(value: Any) -> bool:
    return type(value) is int or isinstance(value, str)


def _is_cell_or_null(value: Any) -> bool:
    return value is None or _is_cell(value)


def _id_type(columns: int | None, *, nulls: bool) -> FieldType:
    """The type of an id of so many columns (None: not known), in which null may stand for a column or not."""
    holds = _is_cell_or_null if nulls else _is_cell
    one = "an integer or a string" if not nulls else "an integer, a string or null"
    cell = _CELL_OR_NULL if nulls else _CELL
    if columns == 1:
        return FieldType(holds, one, cell)
    said = f"a list of {columns or 'as many values as there are id columns'}, each {one}"
    several = FieldType(
        lambda value: (
            isinstance(value, list)
            and columns in {None, len(value)}
            and bool(value)
            and all(map(holds, value))
        ),
        said,
        {"type": "array", "items": cell, "minItems": 1},
    )
    if columns is not None:
        return several
    schema = {"anyOf": [cell, several.schema]}
    return FieldType(lambda value: holds(value) or several.holds(value), f"{one}, or {said}", schema)


def _values_type(columns: int | None) -> FieldType:
    said = "a list of the values of `sink.values`" + ("" if columns is None else f", {columns} of them")
    return FieldType(
        lambda value: isinstance(value, list) and columns in {None, len(value)}, said, {"type": "array"}
    )


def _expect_type(values: FieldType) -> FieldType:
    return FieldType(
        lambda value: isinstance(value, list) and all(map(values.holds, value)),
        f"a list of rows, each {values.name}",
        {"type": "array", "items": values.schema},
    )


_CAN = FieldType(
    lambda value: isinstance(value, list) and all(kind == "exit" for kind in value),
    'a list of "exit"',
    {"type": "array", "items": {"enum": ["exit"]}},
)
_READING = FieldType(lambda value: type(value) is int and value in {1, 2}, "1 or 2", {"enum": [1, 2]})
_START = FieldType(
    lambda value: value is None or (type(value) is int and value >= 1),
    "an integer of at least 1, or null",
    {"type": ["integer", "null"], "minimum": 1},
)


def _needed(kind: FieldType) -> EventField:
    return EventField(kind)


def _optional(kind: FieldType) -> EventField:
    return EventField(kind, required=False)


_EVERYWHERE = {"n": _needed(INT), "t": _needed(at_least(0))}
_FAULT = {"f": _needed(TEXT), "phase": _needed(PHASE)}
_FAULT_BEGIN = {**_EVERYWHERE, **_FAULT, "stalls": _optional(FLAG), "can": _optional(_CAN)}
_FAULT_END = {**_EVERYWHERE, **_FAULT, "evidence": _needed(OBJECT), "error": _optional(ANY)}


class OutsideFields:
    """The fields that the events of a history with this header have; None: the header could not be read."""

    def __init__(self, header: OutsideHeader | None) -> None:
        columns = None if header is None else len(header.sink.id)
        self._has_j = None if header is None else header.sink.j is not None
        """None: not known."""
        values = _values_type(None if header is None else len(header.sink.values))
        offered, seen = _id_type(columns, nulls=False), _id_type(columns, nulls=True)
        self._number = EventField(at_least(0), required=self._has_j is True)
        self._was = {"id": _needed(seen), "j": self._number, "v": _needed(values)}
        row = {"id": _needed(seen), "j": self._number, "v": _needed(values)}
        self.kinds: Mapping[str, Mapping[str, EventField]] = {
            name: {**_EVERYWHERE, **fields} for name, fields in _kinds(offered, seen, values, row).items()
        }

    def check(self, given: Mapping[str, Any]) -> OutsideLine:
        """Check the object of one line."""
        kind = given.get("k")
        if not isinstance(kind, str) or kind not in self.kinds:
            said = (
                "the event lacks `k`, its kind"
                if "k" not in given
                else f"unknown kind of event {shown(kind)}"
            )
            good, complaints = check_fields(given, _EVERYWHERE, "an event")
            return OutsideLine(good=good, complaints=(said, *complaints))
        fields = _FAULT_END if kind == "fault" and given.get("phase") == "end" else self.kinds[kind]
        good, complaints = check_fields(given, fields, f"`{kind}`")
        complaints += self._misplaced(kind, given, good)
        if complaints:
            return OutsideLine(kind=kind, good=good, complaints=tuple(complaints))
        return OutsideLine(kind=kind, good=good, event=_MAKE[kind](**good))

    def _misplaced(self, kind: str, given: Mapping[str, Any], good: Mapping[str, Any]) -> list[str]:
        """Complaints about fields that stand where they must not."""
        match kind:
            case "row":
                return [*self._unnumbered("`row`", given), *self._before(given, good)]
            case "table":
                return list(self._unnumbered("`table`", given))
            case "exit":
                return list(_ended(given))
            case _:
                return []

    def _unnumbered(self, place: str, given: Mapping[str, Any]) -> Iterator[str]:
        if self._has_j is False and "j" in given:
            yield f"{place} has a `j`, though `sink` of the header names no `j`"

    def _before(self, given: Mapping[str, Any], good: Mapping[str, Any]) -> Iterator[str]:
        op = good.get("op")
        if op == "update" and "was" not in given:
            yield "an `update` lacks `was`, the row before it"
        elif op in {"insert", "delete"} and "was" in given:
            yield f"`was` stands in an `update` only, and this row is {shown(op)}"
        if isinstance(was := good.get("was"), dict):
            yield from check_fields(was, self._was, "`was`")[1]
            yield from self._unnumbered("`was`", was)


def _ended(given: Mapping[str, Any]) -> Iterator[str]:
    if "code" in given and "signal" in given:
        yield "an `exit` has both `code` and `signal`"
    if given.keys().isdisjoint({"code", "signal", "by"}):
        yield "an `exit` has neither `code` nor `signal` nor `by`"


def _kinds(
    offered: FieldType, seen: FieldType, values: FieldType, row: Mapping[str, EventField]
) -> Mapping[str, Mapping[str, EventField]]:
    return {
        "offer": {
            "part": _needed(at_least(0)),
            "pos": _needed(INT),
            "id": _needed(offered),
            "key": _optional(ANY),
            "expect": _optional(_expect_type(values)),
            "fails": _optional(FLAG),
        },
        "start": {"start": _needed(at_least(1))},
        "exit": {
            "start": _needed(at_least(1)),
            "code": _optional(INT),
            "signal": _optional(at_least(1)),
            "by": _optional(TEXT),
        },
        "fault": _FAULT_BEGIN,
        "row": {
            "op": _needed(one_of("insert", "update", "delete")),
            "tx": _needed(INT),
            **row,
            "was": _optional(OBJECT),
            "session": _optional(INT_OR_NULL),
            "start": _optional(_START),
            "last": _optional(FLAG),
        },
        "asked": {"key": _needed(ANY), "session": _optional(INT_OR_NULL)},
        "table": {"reading": _needed(_READING), **row},
        "dead": {"reading": _needed(_READING), "id": _needed(seen), "error": _optional(ANY)},
        "read": {
            "reading": _needed(_READING),
            "of": _needed(one_of("table", "dead", "log")),
            "rows": _needed(at_least(0)),
        },
        "finished": {"how": _needed(one_of("exit", "file", "all-rows", "settled"))},
        "giveup": {"why": _needed(ANY)},
    }


OUTSIDE_SCHEMA_FILE = Path(__file__).resolve().parents[1] / "schemas" / f"history-outside.v{VERSION}.json"


def outside_schema_text() -> str:
    """The content of `OUTSIDE_SCHEMA_FILE`."""
    return json.dumps(outside_schema(), indent=2, ensure_ascii=False) + "\n"


def outside_schema() -> dict[str, Any]:
    """The schema of any line, with definitions for the header and each kind of event.

    It cannot compare a line with the header: how many columns there are, and whether rows have a `j`.
    """
    kinds = OutsideFields(None).kinds
    written = {name: _event_schema(name, fields) for name, fields in kinds.items() if name != "fault"}
    written["exit"] |= {
        "anyOf": [{"required": [name]} for name in ("code", "signal", "by")],
        "not": {"required": ["code", "signal"]},
    }
    written["row"] |= {
        "oneOf": [_row_schema(["update"], was=True), _row_schema(["insert", "delete"], was=False)]
    }
    written["fault-begin"] = _event_schema("fault", _FAULT_BEGIN, phase="begin")
    written["fault-end"] = _event_schema("fault", _FAULT_END, phase="end")
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": f"A line of a Floodmark history seen from outside, version {VERSION}",
        "description": "Line 1 is `#/definitions/header`, every other line `#/definitions/event`.",
        "anyOf": [{"$ref": "#/definitions/header"}, {"$ref": "#/definitions/event"}],
        "definitions": {
            "header": outside_header_schema(),
            "event": {"anyOf": [{"$ref": f"#/definitions/{name}"} for name in written]},
            **written,
        },
    }


def _row_schema(ops: list[str], *, was: bool) -> dict[str, Any]:
    before = OutsideFields(None)
    fields = {name: before.kinds["row"][name].type.schema for name in ("id", "j", "v")}
    if not was:
        return {"properties": {"op": {"enum": ops}, "was": False}}
    image = {"type": "object", "required": ["id", "v"], "properties": fields}
    return {"required": ["was"], "properties": {"op": {"enum": ops}, "was": image}}


def _event_schema(kind: str, fields: Mapping[str, EventField], **fixed: str) -> dict[str, Any]:
    """The schema of one kind of event; unknown fields are allowed."""
    constants = {name: {"const": value} for name, value in {"k": kind, **fixed}.items()}
    required = ["k", *(name for name, field in fields.items() if field.required)]
    properties = {name: field.type.schema for name, field in fields.items()}
    return {"type": "object", "required": required, "properties": {**properties, **constants}}


def main() -> int:
    """Write `OUTSIDE_SCHEMA_FILE`."""
    OUTSIDE_SCHEMA_FILE.write_text(outside_schema_text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
