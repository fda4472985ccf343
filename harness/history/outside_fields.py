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
    event_schema,
    line_schema,
    one_of,
    optional,
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


def _id_type(columns: int | None, *, nulls: bool) -> FieldType:
    """The type of an id of so many columns (None: not known), in which null may stand for a column or not."""
    one = "an integer or a string" if not nulls else "an integer, a string or null"
    cell = _CELL_OR_NULL if nulls else _CELL

    def holds(value: object) -> bool:
        return type(value) is int or isinstance(value, str) or (nulls and value is None)

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


_EVERYWHERE = {"n": EventField(INT), "t": EventField(at_least(0))}
_FAULT = {"f": EventField(TEXT), "phase": EventField(PHASE)}
_FAULT_BEGIN = {**_EVERYWHERE, **_FAULT, "stalls": optional(FLAG), "can": optional(_CAN)}
_FAULT_END = {**_EVERYWHERE, **_FAULT, "evidence": EventField(OBJECT), "error": optional(ANY)}


class OutsideFields:
    """The fields that the events of a history with this header have; None: the header could not be read."""

    def __init__(self, header: OutsideHeader | None) -> None:
        columns = None if header is None else len(header.sink.id)
        self._has_j = None if header is None else header.sink.j is not None
        """None: not known."""
        count = None if header is None else len(header.sink.values)
        values = FieldType(
            lambda value: isinstance(value, list) and count in {None, len(value)},
            "a list of the values of `sink.values`" + ("" if count is None else f", {count} of them"),
            {"type": "array"},
        )
        offered, seen = _id_type(columns, nulls=False), _id_type(columns, nulls=True)
        number = EventField(at_least(0), required=self._has_j is True)
        self._was = {"id": EventField(seen), "j": number, "v": EventField(values)}
        self.kinds: Mapping[str, Mapping[str, EventField]] = {
            name: {**_EVERYWHERE, **fields}
            for name, fields in _kinds(offered, seen, values, self._was).items()
        }

    def check(self, given: Mapping[str, object]) -> OutsideLine:
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

    def _misplaced(self, kind: str, given: Mapping[str, object], good: Mapping[str, object]) -> list[str]:
        """Complaints about fields that stand where they must not."""
        match kind:
            case "row":
                return [*self._unnumbered("`row`", given), *self._before(given, good)]
            case "table":
                return list(self._unnumbered("`table`", given))
            case "exit" if {"code", "signal"} <= given.keys():
                return ["an `exit` has both `code` and `signal`"]
            case "exit" if given.keys().isdisjoint({"code", "signal", "by"}):
                return ["an `exit` has neither `code` nor `signal` nor `by`"]
            case _:
                return []

    def _unnumbered(self, place: str, given: Mapping[str, object]) -> Iterator[str]:
        if self._has_j is False and "j" in given:
            yield f"{place} has a `j`, though `sink` of the header names no `j`"

    def _before(self, given: Mapping[str, object], good: Mapping[str, object]) -> Iterator[str]:
        op = good.get("op")
        if op == "update" and "was" not in given:
            yield "an `update` lacks `was`, the row before it"
        elif op in {"insert", "delete"} and "was" in given:
            yield f"`was` stands in an `update` only, and this row is {shown(op)}"
        if isinstance(was := good.get("was"), dict):
            yield from check_fields(was, self._was, "`was`")[1]
            yield from self._unnumbered("`was`", was)


def _kinds(
    offered: FieldType, seen: FieldType, values: FieldType, row: Mapping[str, EventField]
) -> Mapping[str, Mapping[str, EventField]]:
    expect = FieldType(
        lambda value: isinstance(value, list) and all(map(values.holds, value)),
        f"a list of rows, each {values.name}",
        {"type": "array", "items": values.schema},
    )
    return {
        "offer": {
            "part": EventField(at_least(0)),
            "pos": EventField(INT),
            "id": EventField(offered),
            "key": optional(ANY),
            "expect": optional(expect),
            "fails": optional(FLAG),
        },
        "start": {"start": EventField(at_least(1))},
        "exit": {
            "start": EventField(at_least(1)),
            "code": optional(INT),
            "signal": optional(at_least(1)),
            "by": optional(TEXT),
        },
        "fault": _FAULT_BEGIN,
        "row": {
            "op": EventField(one_of("insert", "update", "delete")),
            "tx": EventField(INT),
            **row,
            "was": optional(OBJECT),
            "session": optional(INT_OR_NULL),
            "start": optional(_START),
            "last": optional(FLAG),
        },
        "asked": {"key": EventField(ANY), "session": optional(INT_OR_NULL)},
        "table": {"reading": EventField(_READING), **row},
        "dead": {"reading": EventField(_READING), "id": EventField(seen), "error": optional(ANY)},
        "read": {
            "reading": EventField(_READING),
            "of": EventField(one_of("table", "dead", "log")),
            "rows": EventField(at_least(0)),
        },
        "finished": {"how": EventField(one_of("exit", "file", "all-rows", "settled"))},
        "giveup": {"why": EventField(ANY)},
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
    written = {name: event_schema(name, fields) for name, fields in kinds.items() if name != "fault"}
    written["exit"] |= {
        "anyOf": [{"required": [name]} for name in ("code", "signal", "by")],
        "not": {"required": ["code", "signal"]},
    }
    before = {name: kinds["row"][name].type.schema for name in ("id", "j", "v")}
    was = {"type": "object", "required": ["id", "v"], "properties": before}
    written["row"] |= {
        "oneOf": [
            {"required": ["was"], "properties": {"op": {"enum": ["update"]}, "was": was}},
            {"properties": {"op": {"enum": ["insert", "delete"]}, "was": False}},
        ]
    }
    written["fault-begin"] = event_schema("fault", _FAULT_BEGIN, phase="begin")
    written["fault-end"] = event_schema("fault", _FAULT_END, phase="end")
    title = f"A line of a Floodmark history seen from outside, version {VERSION}"
    return line_schema(title, outside_header_schema(), written)


def main() -> int:
    """Write `OUTSIDE_SCHEMA_FILE`."""
    OUTSIDE_SCHEMA_FILE.write_text(outside_schema_text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
