"""The JSON Schema of scenario files: fresh, and in the words of draft 07 only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.scenario.catalogue import catalogue
from tools.pages.scenario_schema import SCHEMA_FILE, scenario_schema, schema_text

DRAFT_07 = {
    "$schema", "$ref", "additionalProperties", "allOf", "anyOf", "const", "default", "definitions", "description",
    "enum", "examples", "exclusiveMinimum", "if", "items", "maxItems", "maximum", "minItems", "minLength", "minimum",
    "oneOf", "pattern", "properties", "required", "then", "title", "type",
}  # fmt: skip


def schemas(node: Any) -> Iterator[dict[str, Any]]:
    """Every schema inside `node`, itself included; names of fields are no keywords."""
    if not isinstance(node, dict):
        return
    yield node
    for key in ("properties", "definitions"):
        for inner in node.get(key, {}).values():
            yield from schemas(inner)
    for key in ("items", "if", "then"):
        yield from schemas(node.get(key))
    for key in ("allOf", "oneOf"):
        for inner in node.get(key, []):
            yield from schemas(inner)


def test_the_published_schema_is_the_models() -> None:
    """Stale: run `python -m tools.pages.scenario_schema`."""
    assert SCHEMA_FILE.read_text(encoding="utf-8") == schema_text()


def test_the_schema_speaks_draft_07() -> None:
    found = list(schemas(scenario_schema()))

    assert {key for schema in found for key in schema} <= DRAFT_07
    assert all(len(schema) == 1 for schema in found if "$ref" in schema)


def test_every_reference_leads_somewhere() -> None:
    whole = scenario_schema()
    wanted = {schema["$ref"].removeprefix("#/definitions/") for schema in schemas(whole) if "$ref" in schema}

    assert wanted <= whole["definitions"].keys()


def test_defaults_are_written_as_a_file_has_them() -> None:
    whole = scenario_schema()

    assert whole["properties"]["budget"]["default"] == "1m"
    assert whole["definitions"]["Workload"]["properties"]["rate"]["default"] == "500/s"
    assert "default" not in whole["definitions"]["Fault"]["properties"]["for"]


def test_every_shipped_file_points_editors_to_the_schema() -> None:
    for path in catalogue().values():
        first, _, _ = path.read_text(encoding="utf-8").partition("\n")
        modeline, _, target = first.partition("$schema=")

        assert modeline == "# yaml-language-server: ", path
        assert (path.parent / target).resolve() == SCHEMA_FILE, path
