"""Rows as strangers write them: legal ones are read alike both ways, what breaks the format is told by its row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.history import event as ev
from harness.history.files import write
from harness.history.read import open_history, read_whole
from harness.history.text import header_line
from harness.judge.checkers.judge import Malformed, judge_file
from tools.cases import each

pa = pytest.importorskip("pyarrow")

from harness.history.tests.column_tables import (  # noqa: E402  (without Arrow all of this is skipped)
    CLAIMING,
    DONE,
    FORMS,
    HEADER,
    HEADER_LINE,
    IN,
    OUT,
    RES,
    START,
    breaches,
    exact_repr,
    fast,
    table,
)


@pytest.mark.parametrize("form", FORMS)
def test_columns_of_narrow_or_encoded_types_are_read(tmp_path: Path, form: str) -> None:
    words = pa.dictionary(pa.int8(), pa.string())
    path = table(tmp_path / f"h{form}", START, IN, n=pa.int16(), s=pa.uint8(), k=words, t=pa.uint64())

    _, events = read_whole(path)

    assert [event.n for event in events] == [1, 2]
    assert fast(path) == events


ODD_ROWS: dict[str, dict[str, Any]] = {
    "no kind": {**IN, "k": None},
    "an unknown kind": {**IN, "k": "inn"},
    "a required cell that is null": {**IN, "pos": None},
    "no id": {**IN, "id": None},
    "two ids": {**IN, "id_text": "x"},
    "a negative t": {**IN, "t": -1},
    "a negative subtask": {**IN, "s": -1},
    "attempt 0": {**IN, "a": 0},
    "a negative j": {**OUT, "j": -1},
    "a value that is no JSON": {**OUT, "v": "x"},
    "a value that is blank": {**OUT, "v": ""},
    "a value that is two": {**OUT, "v": "1 2"},
    "a value that brings a field": {**OUT, "v": '"x","ts":5'},
    "a value with a key twice": {**OUT, "v": '{"a":1,"a":2}'},
    "a value that is not a number": {**OUT, "v": "NaN"},
    "a value that is nested too deep": {**OUT, "v": "[" * 400 + "]" * 400},
    "an expectation that is no list": {**IN, "expect": "1"},
    "a cell that is unknown to the kind and no JSON": {**IN, "v": "x"},
    "a timestamp that is given and null": {**OUT, "ts": 1, "ts_null": True},
    "a watermark that is final and not": {**IN, "k": "wm", "id": None, "w": 1, "w_end": True},
    "no watermark": {**IN, "k": "wm", "id": None},
    "a result that does not exist": {**RES, "r": "late"},
    "results that are no list": {**RES, "v": "1"},
    "try 0": {**RES, "try": 0},
    "a line beside cells": {**IN, "line": DONE},
    "a line that is no JSON": {"line": "{"},
    "a line that is no object": {"line": "[]"},
    "a line that is no event": {"line": "{}"},
    "an end of a fault without evidence": {"n": 2, "t": 0, "k": "fault", "f": "x", "phase": "end"},
}


@each("name", ODD_ROWS)
@each("form", FORMS)
def test_a_row_that_breaks_the_format_is_a_breach_with_its_number(
    tmp_path: Path, name: str, form: str
) -> None:
    path = table(tmp_path / f"h{form}", START, ODD_ROWS[name], IN)

    judged = judge_file(path)

    assert isinstance(judged, Malformed)
    assert judged.breaches[0].line == 3
    assert fast(path) == 3


def test_a_row_that_contradicts_itself_is_told_how(tmp_path: Path) -> None:
    path = table(
        tmp_path / "h.arrow", START, {**IN, "id_text": "x"}, {**IN, "line": DONE}, {**IN, "expect": "?"}
    )

    assert [say for _, say in breaches(path)] == [
        "the row has both `id` and `id_text`",
        "the row has a `line`, and another cell beside it",
        "`expect` of the row: it is not JSON: Expecting value (character 1)",
    ]


def test_two_columns_of_one_name_are_told(tmp_path: Path) -> None:
    path = table(tmp_path / "h.arrow", START, OUT)
    with pa.OSFile(str(path), "rb") as file:
        given = pa.ipc.open_file(file).read_all()
    twice = given.append_column("v", pa.array(["1", "2"]))
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, twice.schema) as out:
        out.write_table(twice)

    assert breaches(path) == [(1, "there are 2 columns `v`")]


LEGAL_ROWS: dict[str, dict[str, Any]] = {
    "cells that are unknown to the kind": {**IN, "c": 7, "v": "[ 1 ]"},
    "a final watermark": {**IN, "k": "wm", "id": None, "w_end": True},
    "a watermark that is not final": {**IN, "k": "wm", "id": None, "w": 1, "w_end": False},
    "an id that is a text": {**IN, "id": None, "id_text": 'a"\n'},
    "JSON as others write it": {**OUT, "v": ' {"a" : [1,\n"\\u00e9", 1E2]} '},
    "a whole line": {"line": '{"n":2,"t":0,"k":"done",\n"c":18446744073709551616}'},
    "a timestamp that is null": {**IN, "ts_null": True},
    "a timestamp that is absent": {**IN, "ts_null": False},
    "a thread": {**OUT, "thread": "\u00e9", "mail": 2},
}


@each("name", LEGAL_ROWS)
def test_an_odd_row_that_is_legal_is_read_alike_both_ways(tmp_path: Path, name: str) -> None:
    path = table(tmp_path / "h.arrow", START, {**LEGAL_ROWS[name]}, extra=pa.int8())

    reader = open_history(path)
    events = list(reader.events())

    assert [breach for breach in reader.breaches if "start" not in breach.say] == []
    assert len(events) == 2
    assert exact_repr(fast(path)) == exact_repr(events)


CLAIMED_ROWS: dict[str, tuple[dict[str, Any], bool]] = {
    "an outcome with all that is claimed": ({**RES, "by": "x", "retry": False, "ver": 0}, True),
    "a version below 0": ({**RES, "ver": -1}, False),
    "a cause of a restart": ({**START, "n": 2, "a": 2, "by": "x"}, True),
    "a fault that can kill": (
        {"n": 2, "t": 0, "k": "fault", "f": "x", "phase": "begin", "can": '["kill"]', "s": 0},
        True,
    ),
    "a fault of subtask -1": ({"n": 2, "t": 0, "k": "fault", "f": "x", "phase": "begin", "s": -1}, False),
    "a fault that can do nothing known": (
        {"n": 2, "t": 0, "k": "fault", "f": "x", "phase": "begin", "can": '["end"]'},
        False,
    ),
}


@each("name", CLAIMED_ROWS)
def test_a_cell_of_a_claim_is_read_where_the_claim_is_made_and_else_ignored(
    tmp_path: Path, name: str
) -> None:
    row, legal = CLAIMED_ROWS[name]
    claiming = {b"floodmark.history": header_line(CLAIMING).strip()}
    cells = {"by", "retry", "ver", "can"} | ({"s"} if row["k"] == "fault" else set())
    bare = {name: cell for name, cell in row.items() if name not in cells}

    without = fast(table(tmp_path / "h.arrow", {**START, "n": 1}, bare))
    unclaimed = fast(table(tmp_path / "h.arrow", {**START, "n": 1}, row))
    path = table(tmp_path / "h.arrow", {**START, "n": 1}, row, metadata=claiming)

    assert unclaimed == without
    if legal:
        assert exact_repr(fast(path)) == exact_repr(list(open_history(path).events()))
        assert fast(path) != unclaimed
    else:
        assert [line for line, _ in breaches(path)] == [3]


ROWS_OF_1_1: dict[str, tuple[dict[str, Any], bool]] = {
    "a row": (
        {"k": "row", "table": "t", "id_text": "x", "j": 0, "v": "1", "seq": 1, "token": 1, "c": 1},
        True,
    ),
    "a row without a table": ({"k": "row", "id": 1}, False),
    "a read": ({"k": "read", "table": "t", "rows": 0}, True),
    "a read of fewer than no rows": ({"k": "read", "table": "t", "rows": -1}, False),
    "an acknowledgement": ({"k": "ack", "s": 0, "a": 1, "c": 1}, True),
    "a change": ({"k": "change", "phase": "begin", "ver": 1, "key": "null"}, True),
    "a change to version 0": ({"k": "change", "phase": "begin", "ver": 0}, False),
}


@each("name", ROWS_OF_1_1)
def test_a_kind_of_form_1_1_is_read_from_its_cells(tmp_path: Path, name: str) -> None:
    row, legal = ROWS_OF_1_1[name]
    header = HEADER_LINE[:-1] + b',"tables":{"t":{"holds":["dead"]}}}'
    path = table(
        tmp_path / "h.arrow", START, {"n": 2, "t": 0, **row}, metadata={b"floodmark.history": header}
    )

    if legal:
        reader = open_history(path)
        assert exact_repr(fast(path)) == exact_repr(list(reader.events()))
        assert reader.breaches == []
    else:
        assert {line for line, _ in breaches(path)} == {3}


def test_a_number_beyond_64_bits_is_a_breach_of_a_column_that_cannot_hold_it(tmp_path: Path) -> None:
    assert breaches(table(tmp_path / "h.arrow", {**START, "n": 2**63}, n=pa.uint64()))[0][0] == 2


@pytest.mark.parametrize("form", FORMS)
def test_columns_that_are_wrong_as_a_whole_are_told_on_line_1(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"h{form}"

    assert breaches(table(path, START, metadata={})) == [
        (1, "the schema's metadata has no `floodmark.history`, the header")
    ]
    assert breaches(table(path, {**START, "t": 0.5, "final": "yes"})) == [
        (1, "the column `t` is double, but must be int64; the column `final` is string, but must be bool")
    ]
    assert breaches(table(path, {"n": 1, "t": 1})) == [(1, "there is no column `k`")]
    assert (
        "version 2" in breaches(table(path, START, metadata={b"floodmark.history": b'{"history":2}'}))[0][1]
    )


@pytest.mark.parametrize("form", FORMS)
def test_a_damaged_file_is_malformed_wherever_it_is_damaged(tmp_path: Path, form: str) -> None:
    whole, path = tmp_path / f"whole{form}", tmp_path / f"h{form}"
    write(whole, HEADER, [ev.GiveUp(n=n, t=n, why=f"{n * 7919}") for n in range(300)])
    data = whole.read_bytes()
    for kept in (0, 3, 8, len(data) // 2, len(data) - 9, len(data) - 1):
        path.write_bytes(data[:kept])
        assert breaches(path)
    path.write_bytes(b"\x00\xff" * 5000)
    assert breaches(path)


@pytest.mark.parametrize("form", FORMS)
def test_a_file_with_any_byte_changed_is_judged_or_malformed(tmp_path: Path, form: str) -> None:
    whole, path = tmp_path / f"whole{form}", tmp_path / f"h{form}"
    write(whole, HEADER, [ev.GiveUp(n=1, t=0, why="x")])
    data = whole.read_bytes()
    told = []
    for at in range(0, len(data), len(data) // 25):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        judged, events = judge_file(path), fast(path)
        told.append(isinstance(judged, Malformed))
        assert (
            events == judged.breaches[0].line if isinstance(judged, Malformed) else isinstance(events, list)
        )

    assert told.count(True) > len(told) // 4
