"""The JSON Schema of scenario files, for editors: made from the model, draft 07, which editors understand.

`python -m harness.scenario.schema` writes it anew; a test fails while the file is stale. Invariant: whatever
the model accepts without null, the schema accepts; rules between fields stay the model's, but for those of a
single fault.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import PydanticUndefined

from harness.faults.registry import FAULTS
from harness.scenario.model import Scenario
from harness.scenario_parts.parts import Downstream, Expectations, Operator, Part, Task, Workload
from harness.scenario_parts.triggers import TRIGGERS

__all__ = ["SCHEMA_FILE", "main", "scenario_schema", "schema_text"]

SCHEMA_FILE = Path(__file__).resolve().parents[1] / "schemas" / "scenario.v1.json"

_CHOSEN = ("how", "code")
"""Fields of which each kind names its own values."""
_PARTS: tuple[type[Part], ...] = (Operator, Downstream, Workload, Task, *TRIGGERS.values(), Expectations)


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
    made["properties"]["faults"]["items"] = {"$ref": "#/$defs/Fault"}
    definitions["Fault"] = _any_fault([definitions.pop(kind.__name__) for kind in FAULTS.values()])
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


def _any_fault(kinds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One schema of all kinds: every field that any has, and for each kind which it needs and which it may not have.

    An editor explains a broken rule of one schema; of 52 that might be meant it says only that none fits.
    """
    fields: dict[str, Any] = {}
    for kind in kinds:
        for name, entry in kind["properties"].items():
            plain = {key: value for key, value in entry.items() if key != "default"}
            fields.setdefault(name, plain if name not in _CHOSEN else _common(plain))
    fields["do"] = {**fields["do"], "enum": list(FAULTS)}
    rules = [_rule(name, kind, fields) for name, kind in zip(FAULTS, kinds, strict=True)]
    return {
        "description": "One disturbance: what (`do`), when it begins, and the fields of its kind.",
        "type": "object",
        "additionalProperties": False,
        "properties": fields,
        "required": [name for name in fields if all(name in kind["required"] for kind in kinds)],
        "allOf": rules,
    }


def _common(entry: Mapping[str, Any]) -> dict[str, Any]:
    """What the kinds' fields of one name have in common, where each leaves a choice of its own."""
    return {key: value for key, value in entry.items() if key not in {"enum", "const"}}


def _rule(name: str, kind: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """What a fault of this kind needs, what it may not have, and what its own fields leave to choose from."""
    own = {
        field: {"enum": kind["properties"][field]["enum"]} for field in _CHOSEN if field in kind["properties"]
    }
    foreign = [field for field in fields if field not in kind["properties"]]
    needs = [field for field in kind["required"] if field not in {"id", "do", "when"}]
    then: dict[str, Any] = {"required": needs, "properties": {**dict.fromkeys(foreign, False), **own}}
    return {"if": {"properties": {"do": {"const": name}}, "required": ["do"]}, "then": then}


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
