"""run.json follows its shipped schema, reads back, and holds what a replay needs and no password."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.scenario.outcome import FaultTime
from harness.system.errors import HistoryError
from reports.campaign_view import view_of
from reports.run_document import document_of, document_text, load_document, schema_text
from reports.tests.sample import hostile_outcome, lost_outcome, pass_outcome

SHIPPED = Path(__file__).parents[1] / "schemas" / "run.v1.json"


def document(outcome: Any) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(document_text(document_of(view_of([outcome]), title="t")))
    return value


def breaches(value: Any, schema: dict[str, Any], root: dict[str, Any], place: str = "$") -> list[str]:
    """The breaches of the keywords that our schema uses; each other keyword is one itself."""
    if "$ref" in schema:
        return breaches(value, root["$defs"][schema["$ref"].rpartition("/")[2]], root, place)
    if "anyOf" in schema:
        options = [breaches(value, option, root, place) for option in schema["anyOf"]]
        return [] if [] in options else options[0]
    known = {
        "type", "properties", "required", "additionalProperties", "items", "enum",
        "title", "description", "default", "$schema", "$defs",
    }  # fmt: skip
    found = [f"{place}: keyword {name}" for name in schema if name not in known]
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{place}: {value!r} is none of {schema['enum']}")
    if "type" in schema and not _is_of_type(value, schema["type"]):
        return [*found, f"{place}: {value!r} is no {schema['type']}"]
    if isinstance(value, dict):
        found += [f"{place}: {name} is missing" for name in schema.get("required", ()) if name not in value]
        for name, inner in value.items():
            of = schema.get("properties", {}).get(name, schema.get("additionalProperties", {}))
            if of is False:
                found.append(f"{place}: {name} is unknown")
            elif isinstance(of, dict):
                found += breaches(inner, of, root, f"{place}.{name}")
    if isinstance(value, list):
        for index, inner in enumerate(value):
            found += breaches(inner, schema.get("items", {}), root, f"{place}[{index}]")
    return found


def _is_of_type(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "number": int | float}
    return value is None if name == "null" else name in kinds and isinstance(value, kinds[name])


def test_the_shipped_schema_is_the_one_of_the_structs() -> None:
    assert SHIPPED.read_text(encoding="utf-8") == schema_text()


def test_documents_follow_the_shipped_schema(tmp_path: Path) -> None:
    schema = json.loads(SHIPPED.read_text(encoding="utf-8"))

    for outcome in (pass_outcome(tmp_path), lost_outcome(tmp_path), hostile_outcome(tmp_path)):
        assert breaches(document(outcome), schema, schema) == []


@pytest.mark.parametrize("change", [{"schema_version": 2}, {"runs": [{}]}, {"surplus": 1}, {"title": 3}])
def test_the_schema_refuses_what_is_no_document(tmp_path: Path, change: dict[str, Any]) -> None:
    schema = json.loads(SHIPPED.read_text(encoding="utf-8"))

    assert breaches({**document(pass_outcome(tmp_path)), **change}, schema, schema)


def test_a_document_reads_back_as_it_was_written(tmp_path: Path) -> None:
    written = document_of(view_of([lost_outcome(tmp_path)]), title="t")
    path = tmp_path / "run.json"
    path.write_text(document_text(written), encoding="utf-8")

    assert load_document(path) == written


def test_what_is_no_document_is_refused_with_a_fix(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text('{"schema_version": 2}')

    with pytest.raises(HistoryError, match="fix:"):
        load_document(path)


def test_a_run_holds_what_a_replay_needs(tmp_path: Path) -> None:
    outcome = pass_outcome(tmp_path, mutant="planted", convicts=("V8",))

    (run,) = document(outcome)["runs"]

    assert run["plan"] == outcome.plan
    for name in ("seed", "level", "sut", "mutant", "again"):
        assert run[name] == getattr(outcome, name)
    assert run["world"]["kind"] == "local"
    assert run["versions"] == outcome.versions


def test_every_invariant_has_its_verdict_and_a_failure_its_text(tmp_path: Path) -> None:
    (run,) = document(lost_outcome(tmp_path))["runs"]

    told = {part["invariant"]: part for part in run["invariants"]}
    assert told["V8"]["verdict"] == "fail"
    assert told["V8"]["explanation"].startswith("V8 VIOLATED")
    assert told["V1"]["explanation"] == ""


def test_a_password_in_plan_evidence_or_extras_is_withheld(tmp_path: Path) -> None:
    secret = {"connect": {"password": "hunter2"}, "url": "mysql://root:hunter2@127.0.0.1/db"}
    outcome = pass_outcome(tmp_path, plan=secret, extras=secret)
    fault = replace(outcome.faults[0], plan=secret, times=(FaultTime(armed_us=1, evidence=secret),))

    text = json.dumps(document(replace(outcome, faults=(fault,))))

    assert "hunter2" not in text


def test_the_document_is_ascii_so_that_no_payload_acts_on_who_prints_it(tmp_path: Path) -> None:
    text = document_text(document_of(view_of([hostile_outcome(tmp_path)]), title="t"))

    assert text.isascii()
    assert "\x1b" not in text
