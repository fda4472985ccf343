"""Histories seen from outside: each rule whose breach is malformed is refused with its line; what is legal is read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest

from harness.history.event_fields import schema_text
from harness.history.files import write
from harness.history.outside_fields import OUTSIDE_SCHEMA_FILE, outside_schema
from harness.history.read import open_text, outside_of, read_outside, read_whole
from harness.history.tests.job_lines import HEADER, Json, job_lines
from harness.judge.canaries.canary import canaries
from harness.system.errors import HistoryError, UsageError
from tools.cases import each

OF_JOBS = canaries("jobs")
FULL: Json = {
    **HEADER,
    "claims": {"delivery": "at-most-once", "order": "key", "fenced": False, "explained": True},
    "sink": {"write": "upsert", "id": ["a", "b"], "values": [], "j": "nr", "table": "t", "changes": False},
    "expect_from": "none",
    "partitions": 3,
    "dead_letters": "dead",
    "bounds": {"recover": 1, "quiet": 2},
    "expects": {"records": 1, "starts": 1, "asked": 0, "faults": ["kill"]},
    "decisive": ["V8"],
    "run": {"anything": [1]},
}
OF_KEYS: Json = {**HEADER, "sink": {"write": "upsert", "id": ["a", "b"], "values": ["v"], "rows": "key"}}
ROW = 'insert id=1 v=["a"]\n'
RUN = 'start\noffer id=1 expect=[["a"]]\n'


def breaches(lines: Iterable[Json | str]) -> list[tuple[int, str]]:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    reader = open_text("".join(text + "\n" for text in texts).encode())
    list(reader.outside_events())
    return [(breach.line, breach.say) for breach in reader.breaches]


def altered(part: str, **fields: Any) -> Json:
    return {**HEADER, part: {**HEADER[part], **fields}}


BAD_HEADERS: dict[str, Json] = {
    "`operator`": {**HEADER, "operator": {"mode": "ordered"}},
    "unknown field": altered("claims", exact=True),
    "lacks `claims`": {name: value for name, value in HEADER.items() if name != "claims"},
    "lacks `delivery`": {**HEADER, "claims": {}},
    "lacks `expect_from`": {name: value for name, value in HEADER.items() if name != "expect_from"},
    "lacks `id`": {**HEADER, "sink": {"write": "append", "values": []}},
    "`id`": altered("sink", id=[]),
    "`values`": altered("sink", values=[1]),
    "`write`": altered("sink", write="merge"),
    "`j`": altered("sink", j=0),
    "`changes`": altered("sink", changes=1),
    "`order`": altered("claims", order="total"),
    "`partitions`": {**HEADER, "partitions": 0},
    "`dead_letters`": {**HEADER, "dead_letters": 1},
    "`quiet`": {**HEADER, "bounds": {"quiet": -1}},
    "`records`": {**HEADER, "expects": {"records": 1.0}},
    "V17": {**HEADER, "decisive": ["V17"]},
    "version 2": {**HEADER, "history": 2},
    **{
        f'`rows` of the header is "key", so `{name}`': {**OF_KEYS, **more}
        for name, more in dict[str, Json](
            {
                "write": {"sink": {**OF_KEYS["sink"], "write": "append"}},
                "j": {"sink": {**OF_KEYS["sink"], "j": "nr"}},
                "delivery": {"claims": {"delivery": "at-least-once"}},
                "order": {"claims": {"delivery": "exactly-once", "order": "key"}},
                "dead_letters": {"dead_letters": "dead"},
                "expect_from": {"expect_from": "none"},
            }
        ).items()
    },
}


@each("said", BAD_HEADERS)
def test_a_header_that_breaks_a_rule_is_refused(said: str) -> None:
    found = breaches([BAD_HEADERS[said]])

    assert [line for line, _ in found] == [1]
    assert said.strip("`") in found[0][1]


BAD_EVENTS: dict[str, tuple[Json, str]] = {
    "a part beyond the partitions": ({}, "offer id=1 part=1"),
    "a position that does not rise": ({}, "offer id=1 pos=2\noffer id=2 pos=2"),
    "an id that is offered twice": ({}, "offer id=1\noffer id=1"),
    "an offer after the finish": ({}, 'finished how="file"\noffer id=1'),
    "an expect with expect_from none": ({"expect_from": "none"}, "offer id=1 expect=[]"),
    "a record that fails and expects a row": ({}, 'offer id=1 fails=true expect=[["a"]]'),
    "an expected row with too many values": ({}, 'offer id=1 expect=[["a","b"]]'),
    "an id that is null in an offer": ({}, "offer id=null"),
    "an id that is a fraction": ({}, "offer id=1.0"),
    "an id that is true": ({}, "offer id=true"),
    "an id in a list": ({}, "offer id=[1]"),
    "a start that skips a number": ({}, "start start=2"),
    "a start that begins twice": ({}, "start\nstart start=1"),
    "an exit of a start that has not begun": ({}, "exit start=1 code=0"),
    "an exit of a start that has exited": ({}, "start\nexit start=1 code=0\nexit start=1 code=0"),
    "an exit with code and signal": ({}, "start\nexit start=1 code=0 signal=9"),
    "an exit with nothing": ({}, "start\nexit start=1"),
    "an exit with signal 0": ({}, "start\nexit start=1 signal=0"),
    "a row of a start that has not begun": ({}, "start\n" + 'insert id=1 v=["a"] start=2'),
    "a row with too few values": ({}, "insert id=1 v=[]"),
    "a row with a j that the header does not name": ({}, 'insert id=1 v=["a"] j=0'),
    "a row without the j that the header names": ({"sink": {**HEADER["sink"], "j": "nr"}}, ROW),
    "a table row with a j that the header does not name": ({}, 'table id=1 v=["a"] j=0'),
    "an update without was": ({}, 'update id=1 v=["a"]'),
    "an insert with was": ({}, 'insert id=1 v=["a"] was={"id":1,"v":["a"]}'),
    "a was without values": ({}, 'update id=1 v=["a"] was={"id":1}'),
    "a was with a j that the header does not name": ({}, 'update id=1 v=["a"] was={"id":1,"j":0,"v":["a"]}'),
    "a row after the last of its transaction": ({}, 'insert id=1 tx=1 v=["a"]\ninsert id=2 tx=1 v=["a"]'),
    "a transaction without last before another": (
        {},
        'insert id=1 tx=1 v=["a"] last=false\ninsert id=2 tx=2 v=["a"]',
    ),
    "a transaction of a lower number": ({}, 'insert id=1 tx=2 v=["a"]\ninsert id=2 tx=1 v=["a"]'),
    "rows of one transaction with two sessions": (
        {},
        'insert id=1 v=["a"] session=1 last=false\ninsert id=2 v=["a"] session=2',
    ),
    "rows of one transaction with two starts": (
        {},
        'start\ninsert id=1 v=["a"] last=false\ninsert id=2 v=["a"] start=null',
    ),
    "rows of one transaction that do not stand together": (
        {},
        'insert id=1 v=["a"] last=false\nasked key=1\ninsert id=2 v=["a"]',
    ),
    "a row without a log": ({"sink": {**HEADER["sink"], "changes": False}}, ROW),
    "a read of the log without one": (
        {"sink": {**HEADER["sink"], "changes": False}},
        'read of="log" rows=0',
    ),
    "a dead letter without their table": ({}, "dead id=1"),
    "a read of dead letters without their table": ({}, 'read of="dead" rows=0'),
    "a second read of the table": ({}, 'read of="table" rows=0\nread of="table" rows=0'),
    "a table row after its read": ({}, 'read of="table" rows=0\ntable id=1 v=["a"]'),
    "reading 1 after reading 2": ({}, 'table reading=2 id=1 v=["a"]\ntable id=1 v=["a"]'),
    "a row inside a reading": ({}, 'table id=1 v=["a"]\n' + ROW + 'read of="log" rows=1'),
    "a finish after a reading": ({}, 'table id=1 v=["a"]\nfinished how="file"'),
    "a giveup after a reading": ({}, 'read of="log" rows=0\ngiveup why=1'),
    "a reading 3": ({}, 'table reading=3 id=1 v=["a"]'),
    "two finishes": ({}, 'finished how="file"\nfinished how="file"'),
    "a finish and a giveup": ({}, 'giveup why=1\nfinished how="file"'),
    "another way to finish": ({}, 'finished how="luck"'),
    "a fault that ends and has not begun": ({}, 'fault f="kill" phase="end" evidence={}'),
    "a fault that ends without evidence given": (
        {},
        'fault f="kill" phase="begin"\nfault f="kill" phase="end"',
    ),
    "a fault that can do something else": ({}, 'fault f="kill" phase="begin" can=["kill"]'),
    "a fault named harness": ({}, 'fault f="harness" phase="begin"'),
    "a fault named outside": ({}, 'fault f="outside" phase="begin"'),
    "an expected row where rows are of records": ({}, 'expect id=1 v=["a"]'),
    "an offer that expects rows where they are of keys": (OF_KEYS, "offer id=1 expect=[]"),
    "an offer with the columns of a key": (OF_KEYS, "offer id=[1,2]"),
    "an expected row with one column of its key": (OF_KEYS, 'expect id=1 v=["a"]'),
    "an unknown kind": ({}, "commit"),
    "a giveup without why": ({}, "giveup"),
    "a lookup without a key": ({}, "asked"),
}


@each("what", BAD_EVENTS)
def test_an_event_that_breaks_a_rule_is_refused_at_its_line(what: str) -> None:
    changes, text = BAD_EVENTS[what]
    header = {**HEADER, **changes}
    lines = list(job_lines(text, {**header, "sink": header["sink"]}))

    found = breaches([header, *lines])

    assert found, what
    assert {line for line, _ in found} <= {len(lines) + 1}


LEGAL: dict[str, str] = {
    "unknown fields of events": 'start more=1\nasked key=1 s=0 a=1\nexit start=1 code=0 thread=7\ndead_="x"',
    "rows between the readings": RUN + 'table id=1 v=["a"]\nstart\n' + ROW + 'table reading=2 id=1 v=["a"]\n',
    "a last transaction without its last": RUN
    + 'insert id=1 v=["a"] last=false\nexit start=1 code=0\nfinished how="exit"\n',
    "an end of the oldest fault of a name": 2 * 'fault f="k" phase="begin"\n'
    + 2 * 'fault f="k" phase="end" evidence={}\n',
    "a null in a row's id": 'insert id=null v=["a"]\ntable id=null v=["a"]\n',
    "an exit of which only the cause is known": 'start\nexit start=1 by="harness"\n',
    "two starts that live at once": "start\nstart\nexit start=1 code=0\nexit start=2 code=0\n",
    "any value": 'insert id=1 v=[{"a":[null,true,1.5]}]\n',
}


@each("what", LEGAL)
def test_what_is_legal_is_read(what: str) -> None:
    lines = [line for line in LEGAL[what].splitlines() if not line.startswith("dead_")]

    assert breaches([HEADER, *job_lines("\n".join(lines), HEADER)]) == []


def test_a_record_has_its_own_id_where_rows_are_of_keys_of_several_columns() -> None:
    lines = job_lines('expect id=[1,null] v=["a"]\noffer id=5\ninsert id=[1,null] v=["a"]', OF_KEYS)

    assert breaches([OF_KEYS, *lines]) == []


def test_a_header_with_every_field_is_read_and_written_back(tmp_path: Path) -> None:
    header, events = outside_of(FULL, [{"n": 1, "t": 0, "k": "offer", "part": 2, "pos": 0, "id": [1, "x"]}])

    write(tmp_path / "h.jsonl", header, events)

    assert json.loads((tmp_path / "h.jsonl").read_text().splitlines()[0]) == FULL
    assert read_outside(tmp_path / "h.jsonl") == (header, events)


def test_a_history_is_written_as_it_was_read(tmp_path: Path) -> None:
    written = tmp_path / "h.jsonl.gz"
    for canary in OF_JOBS:
        write(written, *read_outside(canary.path))

        assert read_outside(written) == read_outside(canary.path), canary.name


def test_columns_do_not_hold_this_view(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not written in columns"):
        write(tmp_path / "h.parquet", *read_outside(OF_JOBS[0].path))


def test_each_view_is_refused_where_the_other_is_expected(tmp_path: Path) -> None:
    write(tmp_path / "h.jsonl", *read_outside(OF_JOBS[0].path))

    with pytest.raises(HistoryError, match="seen from outside"):
        read_whole(tmp_path / "h.jsonl")


def test_a_last_line_that_was_cut_off_is_left_out_with_a_warning() -> None:
    reader = open_text((json.dumps(HEADER) + '\n{"n":1,"t":0,"k":"sta').encode())

    assert list(reader.outside_events()) == []
    assert reader.breaches == []
    assert "cut off" in reader.warnings[0]


def test_an_unreadable_line_is_the_only_breach_that_is_told() -> None:
    start, exit_ = job_lines("start\nexit start=1 code=0", HEADER)

    found = breaches([HEADER, json.dumps(start)[:-3], exit_])

    assert [line for line, _ in found] == [2]


def test_the_schema_file_is_that_of_the_tables() -> None:
    assert OUTSIDE_SCHEMA_FILE.read_text(encoding="utf-8") == schema_text(outside_schema())


def test_the_schema_takes_every_line_that_the_reader_takes() -> None:
    takes = fastjsonschema.compile(outside_schema())
    for canary in OF_JOBS:
        for line in (canary.header, *canary.events):
            takes(line)
    takes(FULL)


@pytest.mark.parametrize(
    "what",
    [
        "an exit with code and signal",
        "an exit with nothing",
        "an update without was",
        "an id that is true",
        "a reading 3",
    ],
)
def test_the_schema_refuses_what_one_line_shows(what: str) -> None:
    takes = fastjsonschema.compile(outside_schema())
    line = list(job_lines(BAD_EVENTS[what][1], HEADER))[-1]

    with pytest.raises(fastjsonschema.JsonSchemaException):
        takes(line)
