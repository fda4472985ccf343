"""The published schema is the one that the structs of events give, and takes the lines that the reader takes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest

import harness.judge.checkers.tests as checker_tests
from harness.history.event_fields import (
    ALL_CLAIMS,
    SCHEMA_FILE,
    history_schema,
    kinds_of,
    schema_text,
    well_formed,
)
from harness.history.header import Header, parse_header
from harness.judge.checkers.tests.legal_histories import legal_history
from tools.cases import each, in_sweep_after

KINDS = kinds_of(ALL_CLAIMS)
CATALOGUE = Path(checker_tests.__path__[0]) / "catalogue"
VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2, 0.5, "", "x", "end", "ok", "begin", "limit", [], [1], {}, {"a": 1},
    [{"id": 1}], [{"id": "x", "pos": "?"}], [{"id": None}], [{"w": 1, "pos": 0}], [{"w": "end", "pos": 0}],
    [{"w": 1}], [{"w": 1, "pos": 0, "id": 1}], [{"w": "x", "pos": 0}], [{}], [1],
    ["V8"], ["V17"], ["V99"], "ordered", "atomic", "records",
]  # fmt: skip
OPERATOR = {
    "mode": "ordered", "capacity": 1, "timeout_ms": 0, "max_tries": 1, "watermark_slots": True,
    "coalesces_watermarks": False, "per_key_order": False, "on_error": "fail", "on_timeout": "dead",
}  # fmt: skip
FIXED: dict[str, Any] = {"backoff": "fixed", "initial_ms": 1, "slack_ms": 1, "on": ["fail"], "at_end": "same"}
GROWING: dict[str, Any] = {
    **FIXED,
    "backoff": "exponential",
    "multiplier": 1.5,
    "max_ms": 1,
    "profile": "flink",
}
TABLE: dict[str, Any] = {"holds": ["effects", "outputs"], "keep": "first", "ordered": False}
HEADER: dict[str, Any] = {
    "history": 1, "operator": OPERATOR, "sink": "append", "effects": "records", "fenced": True,
    "bounds": {"watermark_hold": 1}, "expects": {"records": 1, "faults": ["x"]}, "decisive": ["V8"], "run": 1,
    "tables": {"t": {"holds": ["outputs"]}}, "explained": "alone", "expect_from": "none", "by_key": True,
    "versions": False,
}  # fmt: skip


@cache
def accepts(part: str) -> Any:
    schema = {**history_schema(), "anyOf": [{"$ref": f"#/definitions/{part}"}]}
    return fastjsonschema.compile(schema)


def valid(part: str, line: Any) -> bool:
    try:
        accepts(part)(line)
    except fastjsonschema.JsonSchemaException:
        return False
    return True


def reads_header(line: Any) -> bool:
    return isinstance(line, dict) and isinstance(parse_header(line), Header)


def altered(whole: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Each field left out, and with every value."""
    for name in [*whole, "more"]:
        rest = {key: value for key, value in whole.items() if key != name}
        yield rest
        yield from ({**rest, name: value} for value in VALUES)


def test_the_file_is_what_the_tables_give() -> None:
    assert SCHEMA_FILE.read_text("utf-8") == schema_text(history_schema()), (
        "python -m harness.history.outside_fields"
    )


@each("folder", sorted(path.name for path in CATALOGUE.iterdir()))
def test_schema_and_reader_agree_on_every_line_of_the_catalogue(folder: str) -> None:
    for path in sorted((CATALOGUE / folder).rglob("*.jsonl")):
        header, *lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        assert valid("header", header) == reads_header(header), path
        for line in lines:
            assert valid("event", line) == (well_formed(line, ALL_CLAIMS).event is not None), (path, line)


@pytest.mark.parametrize("seed", range(3))
def test_the_schema_takes_legal_histories(seed: int) -> None:
    header, *lines = legal_history(seed)

    assert valid("header", header)
    assert all(valid("event", line) for line in lines)


@pytest.mark.parametrize("kind", in_sweep_after(6, [*KINDS.fields, "fault that ends"]))
def test_schema_and_reader_agree_on_every_value_of_every_field(kind: str) -> None:
    row = KINDS.fields.get(kind, KINDS.ended["fault"])
    fitting: dict[str, Any] = {"k": kind if kind in KINDS.fields else "fault"}
    for name in row:
        fitting[name] = (
            next(value for value in VALUES if name != "phase" and row[name].checks.holds(value))
            if name != "phase"
            else ("begin" if kind == "fault" else "end")
        )

    assert valid("event", fitting)
    for line in altered(fitting):
        assert valid("event", line) == (well_formed(line, ALL_CLAIMS).event is not None), line


def test_schema_and_reader_agree_on_every_value_of_the_header() -> None:
    objects: dict[str, dict[str, Any]] = {name: HEADER[name] for name in ("operator", "bounds", "expects")}
    parts = [{**HEADER, name: part} for name, given in objects.items() for part in altered(given)]

    for retry in (FIXED, GROWING):
        given = [*altered(retry), {**retry, "on": ["fail", "fail"]}, {**retry, "on": ["fail", "empty"]}]
        parts += [{**HEADER, "operator": {**OPERATOR, "retry": one}} for one in given]
    base = {**HEADER, "effects": "outputs", "sink": "rollback"}
    for table in (TABLE, {**TABLE, "keep": "all"}, {"holds": ["audit"]}, {"holds": ["dead"], "keep": "last"}):
        given = [*altered(table), {**table, "ordered": True}, {**table, "keep": "last"}]
        parts += [{**base, "tables": {"t": one}} for one in given]

    assert valid("header", HEADER)
    for line in (*altered(HEADER), *parts):
        assert valid("header", line) == reads_header(line), line
