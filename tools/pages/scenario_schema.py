"""The JSON Schema (draft 07) of scenario files, for editors, generated from the model.

`python -m tools.pages.scenario_schema` regenerates it; a test fails while the file is stale. Invariant: the schema
accepts whatever the model accepts without nulls. Of the rules between fields it holds only those within one fault.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import PydanticUndefined

from harness.faults.parts.parts import Downstream, Expectations, Operator, Part, Task, Workload
from harness.faults.parts.triggers import TRIGGERS
from harness.faults.registry import FAULTS
from harness.scenario.model import Scenario

SCHEMA_FILE = Path(__file__).resolve().parents[2] / "harness" / "schemas" / "scenario.v1.json"

_CHOSEN = ("how", "code")
"""Fields whose allowed values differ between kinds of faults."""
_PARTS: tuple[type[Part], ...] = (Operator, Downstream, Workload, Task, *TRIGGERS.values(), Expectations)


def schema_text() -> str:
    """The content of the file."""
    return json.dumps(scenario_schema(), indent=2, ensure_ascii=False) + "\n"


def scenario_schema() -> dict[str, Any]:
    """The schema as plain data."""
    made = Scenario.model_json_schema(by_alias=True, mode="validation")
    definitions = made.pop("$defs")
    for part in _PARTS:
        written_defaults(part, definitions[part.__name__])
    written_defaults(Scenario, made)
    made["properties"]["faults"]["items"] = {"$ref": "#/$defs/Fault"}
    definitions["Fault"] = _any_fault([definitions.pop(kind.__name__) for kind in FAULTS.values()])
    whole = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Floodmark scenario, version 1",
        **{key: value for key, value in made.items() if key != "title"},
        "definitions": definitions,
    }
    cleaned: dict[str, Any] = draft_07(whole)
    return cleaned


def written_defaults(part: type[Part], schema: dict[str, Any]) -> None:
    """Writes defaults as in a file (`60s`, not 60000); None is not written."""
    for name, field in part.model_fields.items():
        entry = schema["properties"][field.alias or name]
        if field.default is None or field.default is PydanticUndefined:
            entry.pop("default", None)
        else:
            adapter: TypeAdapter[Any] = TypeAdapter(field.rebuild_annotation())
            entry["default"] = adapter.dump_python(field.default, mode="json")


def _any_fault(kinds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One schema for all kinds: all fields, and per kind a rule for the required and the forbidden fields.

    For a union of many schemas an editor would only report that none matches.
    """
    fields: dict[str, Any] = {}
    for kind in kinds:
        for name, entry in kind["properties"].items():
            plain = {key: value for key, value in entry.items() if key != "default"}
            fields.setdefault(name, plain if name not in _CHOSEN else _common(plain))
    fields["do"] = {**fields["do"], "enum": list(FAULTS)}
    rules = [_rule(name, kind, fields) for name, kind in zip(FAULTS, kinds, strict=True)]
    return {
        "description": "One fault: its kind (`do`), its trigger (`when`), and the fields of its kind.",
        "type": "object",
        "additionalProperties": False,
        "properties": fields,
        "required": [name for name in fields if all(name in kind["required"] for kind in kinds)],
        "allOf": rules,
    }


def _common(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a field's schema that is the same for all kinds: without the allowed values."""
    return {key: value for key, value in entry.items() if key not in {"enum", "const"}}


def _rule(name: str, kind: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """The rule for one kind: its required fields, the fields it cannot have, and its allowed values."""
    own = {
        field: {"enum": kind["properties"][field]["enum"]} for field in _CHOSEN if field in kind["properties"]
    }
    foreign = [field for field in fields if field not in kind["properties"]]
    needs = [field for field in kind["required"] if field not in {"id", "do", "when"}]
    then: dict[str, Any] = {"required": needs, "properties": {**dict.fromkeys(foreign, False), **own}}
    return {"if": {"properties": {"do": {"const": name}}, "required": ["do"]}, "then": then}


def draft_07(node: Any) -> Any:
    """Rewrites what draft 07 lacks or ignores (`$defs`, keys beside a `$ref`), and drops generated titles."""
    match node:
        case {"$ref": str(target), **beside}:
            reference = {"$ref": target.replace("#/$defs/", "#/definitions/")}
            rest = _cleaned(beside)
            return {"allOf": [reference], **rest} if rest else reference
        case {"anyOf": [only, {"type": "null"}], **beside}:
            return draft_07({**only, **beside})
        case dict():
            return _cleaned(node)
        case list():
            return [draft_07(item) for item in node]
        case _:
            return node


def _cleaned(node: Mapping[Any, Any]) -> dict[str, Any]:
    """Drops generated titles; a field called `title` would be a mapping, not a text."""
    noise = isinstance(node.get("title"), str) and "$schema" not in node
    return {key: draft_07(value) for key, value in node.items() if not (noise and key == "title")}


def main() -> None:
    """Writes the file."""
    SCHEMA_FILE.parent.mkdir(exist_ok=True)
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
    sys.stdout.write(f"{SCHEMA_FILE}\n")


if __name__ == "__main__":
    main()
