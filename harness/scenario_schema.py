"""The JSON Schema of scenario files, for editors: made from the model, draft 07, which editors understand.

`python -m harness.scenario_schema` writes it anew; a test fails while the file is stale. Invariant: whatever
the model accepts without null, the schema accepts; rules between fields stay the model's, but for those of a
single fault.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import PydanticUndefined

from harness.scenario import Scenario
from harness.scenario_fault_kinds import FAULT_FORMS, OWN_FIELDS, FaultName
from harness.scenario_faults import Fault
from harness.scenario_parts import Downstream, Expectations, Operator, Part, Task, Workload
from harness.scenario_triggers import TRIGGERS

__all__ = ["SCHEMA_FILE", "main", "scenario_schema", "schema_text"]

SCHEMA_FILE = Path(__file__).resolve().parent / "schemas" / "scenario.v1.json"

_PARTS: tuple[type[Part], ...] = (
    Operator,
    Downstream,
    Workload,
    Task,
    *TRIGGERS.values(),
    Fault,
    Expectations,
)


def schema_text() -> str:
    """The file's content."""
    return json.dumps(scenario_schema(), indent=2, ensure_ascii=False) + "\n"


def scenario_schema() -> dict[str, Any]:
    """The schema as a value."""
    made = Scenario.model_json_schema(by_alias=True, mode="validation")
    definitions = made.pop("$defs")
    for part in _PARTS:
        _written_defaults(part, definitions[part.__name__])
    _written_defaults(Scenario, made)
    definitions["Fault"]["allOf"] = [_rule(kind) for kind in FAULT_FORMS]
    whole = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Floodmark scenario, version 1",
        **{key: value for key, value in made.items() if key != "title"},
        "definitions": definitions,
    }
    cleaned: dict[str, Any] = _draft_07(whole)
    return cleaned


def _written_defaults(part: type[Part], schema: dict[str, Any]) -> None:
    """Defaults as a file has them (`60s`, not 60000); nothing is no default."""
    for name, field in part.model_fields.items():
        entry = schema["properties"][field.alias or name]
        if field.default is None or field.default is PydanticUndefined:
            entry.pop("default", None)
        else:
            adapter: TypeAdapter[Any] = TypeAdapter(field.rebuild_annotation())
            entry["default"] = adapter.dump_python(field.default, mode="json")


def _rule(kind: FaultName) -> dict[str, Any]:
    """What a fault of this kind needs, and what it may not have."""
    form = FAULT_FORMS[kind]
    foreign = [name for name in OWN_FIELDS if name not in (*form.needs, *form.takes)]
    then: dict[str, Any] = {"required": list(form.needs)}
    chosen = {"how": form.hows, "code": form.codes}
    own = {name: {"enum": list(values)} for name, values in chosen.items() if values}
    then["properties"] = {**dict.fromkeys(foreign, False), **own}
    return {"if": {"properties": {"do": {"const": kind}}, "required": ["do"]}, "then": then}


def _draft_07(node: Any) -> Any:
    """Without what draft 07 lacks or ignores: `$defs`, and anything beside a `$ref`; and without noise."""
    match node:
        case {"$ref": str(target), **beside}:
            reference = {"$ref": target.replace("#/$defs/", "#/definitions/")}
            rest = _cleaned(beside)
            return {"allOf": [reference], **rest} if rest else reference
        case {"anyOf": [only, {"type": "null"}], **beside}:
            return _draft_07({**only, **beside})
        case dict():
            return _cleaned(node)
        case list():
            return [_draft_07(item) for item in node]
        case _:
            return node


def _cleaned(node: Mapping[Any, Any]) -> dict[str, Any]:
    """Titles that only repeat a field's name are noise; a field called `title` would be a mapping."""
    noise = isinstance(node.get("title"), str) and "$schema" not in node
    return {key: _draft_07(value) for key, value in node.items() if not (noise and key == "title")}


def main() -> None:
    """Write the file."""
    SCHEMA_FILE.parent.mkdir(exist_ok=True)
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
    sys.stdout.write(f"{SCHEMA_FILE}\n")


if __name__ == "__main__":
    main()
