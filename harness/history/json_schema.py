"""The JSON Schema of a history's lines, for those who write histories: made from the reader's own tables, draft 07.

`python -m harness.history.json_schema` writes it anew; a test fails while the file is stale. Invariant: whatever
line the reader takes the schema takes too, and the other way round but for what JSON Schema cannot say: `1.0` is an
integer to it, and it sees no key that stands twice. The rules between events are the reader's alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.history.event_fields import ENDED_FAULT, KINDS
from harness.history.header import VERSION, header_schema

__all__ = ["SCHEMA_FILE", "history_schema", "main", "schema_text"]

SCHEMA_FILE = Path(__file__).resolve().parents[1] / "schemas" / f"history.v{VERSION}.json"


def schema_text() -> str:
    """The file's content."""
    return json.dumps(history_schema(), indent=2, ensure_ascii=False) + "\n"


def history_schema() -> dict[str, Any]:
    """The schema as a value: of any line, with the header and each kind of event by its name."""
    events = {name: _event(name, kind.fields) for name, kind in KINDS.items() if name != "fault"}
    events["fault-begin"] = _event("fault", KINDS["fault"].fields, phase="begin")
    events["fault-end"] = _event("fault", ENDED_FAULT.fields, phase="end")
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": f"A line of a Floodmark history, version {VERSION}",
        "description": "Line 1 is `#/definitions/header`, every other line `#/definitions/event`.",
        "anyOf": [{"$ref": "#/definitions/header"}, {"$ref": "#/definitions/event"}],
        "definitions": {
            "header": header_schema(),
            "event": {"anyOf": [{"$ref": f"#/definitions/{name}"} for name in events]},
            **events,
        },
    }


def _event(kind: str, fields: Mapping[str, Any], **fixed: str) -> dict[str, Any]:
    """A field that the kind does not know is ignored."""
    constants = {name: {"const": value} for name, value in {"k": kind, **fixed}.items()}
    required = ["k", *(name for name, field in fields.items() if field.required)]
    properties = {name: field.type.schema for name, field in fields.items()}
    return {"type": "object", "required": required, "properties": {**properties, **constants}}


def main() -> int:
    """Write the file."""
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
