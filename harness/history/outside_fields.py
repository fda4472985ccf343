"""The fields of each kind of event seen from outside, as the structs of `outside` declare them, and their JSON Schema.

How many columns an id has, how many values a row has, and whether rows have a `j`, is what the header says; without a
readable header these are not checked.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from harness.history.event_fields import SCHEMA_FILE, history_schema, schema_text
from harness.history.fields import FieldType, Kinds, check_fields, field_type
from harness.history.header import VERSION, object_schema
from harness.history.outside import OutsideEvent, OutsideHeader
from harness.history.values import shown
from harness.system.json_types import Json


def _id_type(columns: int | None, one: FieldType) -> FieldType:
    """The type of an id of so many columns (None: not known), each of type `one`."""
    if columns == 1:
        return one
    several = FieldType(
        lambda value: (
            isinstance(value, list)
            and columns in {None, len(value)}
            and bool(value)
            and all(map(one.holds, value))
        ),
        f"a list of {columns or 'as many values as there are id columns'}, each {one.name}",
        {"type": "array", "items": one.schema, "minItems": 1},
    )
    if columns is not None:
        return several
    return FieldType(
        lambda value: one.holds(value) or several.holds(value),
        f"{one.name}, or {several.name}",
        {"anyOf": [one.schema, several.schema]},
    )


class OutsideFields(Kinds):
    """The fields that the events of a history with this header have; None: the header could not be read."""

    def __init__(self, header: OutsideHeader | None) -> None:
        columns = None if header is None else len(header.sink.id)
        of_record = 1 if header is not None and header.sink.rows == "key" else columns
        self._has_j = None if header is None else header.sink.j is not None
        """None: not known."""
        count = None if header is None else len(header.sink.values)
        values = FieldType(
            lambda value: isinstance(value, list) and count in {None, len(value)},
            "a list of the values of `sink.values`" + ("" if count is None else f", {count} of them"),
            {"type": "array"},
        )
        rows = FieldType(
            lambda value: isinstance(value, list) and all(map(values.holds, value)),
            f"a list of rows, each {values.name}",
            {"type": "array", "items": values.schema},
        )
        offered = _id_type(of_record, field_type(int | str))
        seen = _id_type(columns, field_type(int | str | None))
        shapes = {"offered": offered, "shown": seen, "values": values, "rows": rows}
        super().__init__(get_args(OutsideEvent), shapes=shapes, between=self._misplaced)
        for kind in ("row", "table"):
            number = self.fields[kind]["j"]
            self.fields[kind]["j"] = number._replace(required=self._has_j is True)
        self._was = {name: self.fields["row"][name] for name in ("id", "j", "v")}

    def _misplaced(self, kind: str, given: Mapping[str, object], good: Mapping[str, object]) -> Iterator[str]:
        """Complaints about fields that stand where they must not."""
        if kind in {"row", "table"}:
            yield from self._unnumbered(f"`{kind}`", given)
        if kind == "row":
            yield from self._before(given, good)
        elif kind == "exit" and {"code", "signal"} <= given.keys():
            yield "an `exit` has both `code` and `signal`"
        elif kind == "exit" and given.keys().isdisjoint({"code", "signal", "by"}):
            yield "an `exit` has neither `code` nor `signal` nor `by`"

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


OUTSIDE_SCHEMA_FILE = Path(__file__).resolve().parents[1] / "schemas" / f"history-outside.v{VERSION}.json"


def outside_schema() -> Json:
    """The schema of any line, with definitions for the header and each kind of event.

    It cannot compare a line with the header: how many columns there are, and whether rows have a `j`.
    """
    kinds = OutsideFields(None)
    before = {name: kinds.fields["row"][name].checks.schema for name in ("id", "j", "v")}
    was = {"type": "object", "required": ["id", "v"], "properties": before}
    further: dict[str, dict[str, Any]] = {
        "exit": {
            "anyOf": [{"required": [name]} for name in ("code", "signal", "by")],
            "not": {"required": ["code", "signal"]},
        },
        "row": {
            "oneOf": [
                {"required": ["was"], "properties": {"op": {"enum": ["update"]}, "was": was}},
                {"properties": {"op": {"enum": ["insert", "delete"]}, "was": False}},
            ]
        },
    }
    title = f"A line of a Floodmark history seen from outside, version {VERSION}"
    return kinds.schema(title, object_schema(OutsideHeader), **further)


def main() -> int:
    """Write the schema files of both views."""
    SCHEMA_FILE.write_text(schema_text(history_schema()), encoding="utf-8")
    OUTSIDE_SCHEMA_FILE.write_text(schema_text(outside_schema()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
