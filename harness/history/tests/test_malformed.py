"""Every rule of the format: one smallest file that breaks it, with the lines that are told, and legal oddities."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.history.read import open_text
from harness.history.tests.small_texts import HEADER, IN, OF, START, lines, read, text
from tools.cases import each

SNAP = {"k": "snap", **OF, "c": 1, "pos": 1, "elements": []}
KILL = {"k": "kill", **OF}
AGAIN = {"k": "start", "s": 0, "a": 2, "from": 1, "pos": 1}
RESTORE = {"k": "restore", "s": 0, "a": 2, "c": 1, "elements": []}


def without(event: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in event.items() if key != name}


BAD_HEADERS: dict[str, Any] = {
    "no history": {"operator": HEADER["operator"]},
    "another version": {**HEADER, "history": 2},
    "a version that is true": {**HEADER, "history": True},
    "no operator": {"history": 1},
    "no mode": {**HEADER, "operator": {"capacity": 1, "timeout_ms": 0}},
    "a mode that does not exist": {**HEADER, "operator": {**HEADER["operator"], "mode": "sorted"}},
    "no capacity": {**HEADER, "operator": {"mode": "ordered", "timeout_ms": 0}},
    "a capacity of 0": {**HEADER, "operator": {**HEADER["operator"], "capacity": 0}},
    "a capacity with a fraction": {**HEADER, "operator": {**HEADER["operator"], "capacity": 2.0}},
    "a negative timeout": {**HEADER, "operator": {**HEADER["operator"], "timeout_ms": -1}},
    "no tries": {**HEADER, "operator": {**HEADER["operator"], "max_tries": 0}},
    "slots that are a number": {**HEADER, "operator": {**HEADER["operator"], "watermark_slots": 1}},
    "an unknown field of operator": {**HEADER, "operator": {**HEADER["operator"], "speed": 1}},
    "an unknown field": {**HEADER, "sinks": "append"},
    "a sink that does not exist": {**HEADER, "sink": "exactly-once"},
    "effects that are null": {**HEADER, "effects": None},
    "fenced by a string": {**HEADER, "fenced": "yes"},
    "an unknown bound": {**HEADER, "bounds": {"hold": 1}},
    "a bound with a fraction": {**HEADER, "bounds": {"recover": 1.5}},
    "a negative expectation": {**HEADER, "expects": {"records": -1}},
    "an unknown expectation": {**HEADER, "expects": {"commits": 1}},
    "expected faults without a list": {**HEADER, "expects": {"faults": "cut"}},
    "a measurement as decisive": {**HEADER, "decisive": ["V17"]},
    "the probe's invariant as decisive": {**HEADER, "decisive": ["V22"]},
    "an invariant that does not exist": {**HEADER, "decisive": ["V99"]},
    "decisive as a string": {**HEADER, "decisive": "V8"},
    "an array": "[]",
    "nonsense": "{",
    "a key twice": '{"history":1,"history":1,"operator":{"mode":"ordered","capacity":2,"timeout_ms":0}}',
    "a byte-order mark": "\ufeff" + json.dumps(HEADER),
    "a blank line": "",
}

BAD_EVENTS: dict[str, tuple[list[dict[str, Any] | str], list[int]]] = {
    "no kind": ([{"s": 0}], [2]),
    "an unknown kind": ([START, {"k": "outt", **OF}], [3]),
    "no n": ([{"t": 1, **START, "n": None}], [2]),
    "n that does not rise": ([START, {**IN, "n": 1}], [3]),
    "n that is true": ([{**START, "n": True}], [2]),
    "t that falls": ([{**START, "t": 5}, {**IN, "t": 4}], [3]),
    "a negative t": ([{**START, "t": -1}], [2]),
    "t with a fraction": ([{**START, "t": 1.0}], [2]),
    "a negative subtask": ([{**START, "s": -1}], [2]),
    "attempt 0": ([{**START, "a": 0}], [2]),
    "a thread that is a number": ([{**START, "thread": 1}], [2]),
    "a mail that is null": ([{**START, "mail": None}], [2]),
    "no from": ([without(START, "from")], [2]),
    "no pos": ([START, without(IN, "pos")], [3]),
    "an id that is null": ([START, {**IN, "id": None}], [3]),
    "an id that is true": ([START, {**IN, "id": True}], [3]),
    "an id with a fraction": ([START, {**IN, "id": 1.0}], [3]),
    "a ts that is a string": ([START, {**IN, "ts": "1"}], [3]),
    "an expect that is null": ([START, {**IN, "expect": None}], [3]),
    "a watermark that is a word": ([START, {"k": "wm", **OF, "pos": 0, "w": "last"}], [3]),
    "a watermark with an exponent": ([START, '{"n":2,"t":2,"k":"wm","s":0,"a":1,"pos":0,"w":1e3}'], [3]),
    "a try of 0": ([START, IN, {"k": "call", **OF, "id": 1, "try": 0}], [4]),
    "a result that does not exist": (
        [START, IN, {"k": "res", **OF, "id": 1, "try": 1, "r": "late", "final": True}],
        [4],
    ),
    "final as a number": (
        [START, IN, {"k": "res", **OF, "id": 1, "try": 1, "r": "ok", "final": 1}],
        [4],
    ),
    "results without a list": (
        [START, IN, {"k": "res", **OF, "id": 1, "try": 1, "r": "ok", "final": True, "v": "A"}],
        [4],
    ),
    "an output without a value": ([START, IN, {"k": "out", **OF, "id": 1, "j": 0}], [4]),
    "a negative j": ([START, IN, {"k": "out", **OF, "id": 1, "j": -1, "v": 1}], [4]),
    "an element that is an id": ([START, {**SNAP, "elements": [1]}], [3]),
    "an element without a position": ([START, {**SNAP, "elements": [{"w": 1}]}], [3]),
    "an element of both kinds": ([START, {**SNAP, "elements": [{"id": 1, "w": 1, "pos": 0}]}], [3]),
    "a failure without an error": ([START, {"k": "failed", **OF}], [3]),
    "a checkpoint that is a string": ([START, {"k": "done", "c": "1"}], [3]),
    "a commit by attempt 0": ([START, {"k": "commit", "s": 0, "c": 1, "a": 0}], [3]),
    "an effect without a token": ([START, {"k": "effect", "s": 0, "id": 1, "seq": 1}], [3]),
    "a fault without a phase": ([START, {"k": "fault", "f": "cut"}], [3]),
    "a fault that ends without evidence given": (
        [START, {"k": "fault", "f": "cut", "phase": "begin"}, {"k": "fault", "f": "cut", "phase": "end"}],
        [4],
    ),
    "a fault that stalls maybe": ([START, {"k": "fault", "f": "c", "phase": "begin", "stalls": 1}], [3]),
    "a giveup without a reason": ([START, {"k": "giveup"}], [3]),
    "two breaches on a line": ([START, {**IN, "id": None, "ts": "1"}], [3, 3]),
    "an array": ([START, "[]"], [3]),
    "NaN": ([START, '{"n":2,"t":2,"k":"out","s":0,"a":1,"id":1,"j":0,"v":NaN}'], [3]),
    "Infinity": ([START, '{"n":2,"t":2,"k":"out","s":0,"a":1,"id":1,"j":0,"v":-Infinity}'], [3]),
    "a key twice": ([START, '{"n":2,"t":2,"k":"done","c":1,"c":1}'], [3]),
    "a key twice, deep inside": ([START, '{"n":2,"t":2,"k":"giveup","why":[{"a":1,"a":1}]}'], [3]),
    "a blank line": ([START, "", IN], [3]),
    "a blank line at the end": ([START, " \t"], [3]),
    "nonsense excuses the hole that it leaves": ([START, "in 0", {**IN, "pos": 1}], [3]),
    "nonsense excuses one hole only": (
        [START, "in 0", {**IN, "pos": 1}, {**IN, "pos": 3, "id": 2}],
        [3, 5],
    ),
    "nonsense excuses nothing that had to come before it": (
        [START, SNAP, AGAIN, {**IN, "a": 2, "pos": 1}, "restore 1"],
        [5, 6],
    ),
    "a line whose kind is known excuses no other kind": (
        [START, {**SNAP, "s": None}, AGAIN, {**IN, "a": 2, "pos": 1}],
        [3, 5],
    ),
    "a restore of nobody known is the one that is missing": (
        [START, SNAP, AGAIN, {**RESTORE, "s": None}, {**IN, "a": 2, "pos": 1}],
        [5],
    ),
    # ---- the life of an attempt
    "a record before the start": ([IN, START], [2]),
    "no start at all": ([{"k": "out", **OF, "id": 1, "j": 0, "v": 1}], [2]),
    "a second start": ([START, START], [3]),
    "attempts that fall": ([{**START, "a": 2}, START], [3]),
    "something after close": ([START, {"k": "close", **OF}, IN], [4]),
    "a second close": ([START, {"k": "close", **OF}, {"k": "close", **OF}], [4]),
    "an output after the kill": ([START, KILL, {"k": "out", **OF, "id": 1, "j": 0, "v": 1}], [4]),
    "a second kill": ([START, KILL, KILL], [4]),
    "a first position that is not 0": ([{**START, "pos": 1}], [2]),
    "a restore from nothing": ([START, {"k": "restore", **OF, "c": 1, "elements": []}], [3]),
    "a restore of another checkpoint": ([START, SNAP, AGAIN, {**RESTORE, "c": 2}], [5]),
    "a second restore": ([START, SNAP, AGAIN, RESTORE, RESTORE], [6]),
    "a restore after the first record": (
        [START, SNAP, AGAIN, {**IN, "a": 2, "pos": 1}, RESTORE],
        [6],
    ),
    "no restore before the first record": ([START, SNAP, AGAIN, {**IN, "a": 2, "pos": 1}], [5]),
    "a hole in the positions": ([START, IN, {**IN, "pos": 2, "id": 2}], [4]),
    "a position read twice": ([START, IN, IN], [4]),
    "a first position read that is not 0": ([START, {**IN, "pos": 1}], [3]),
    "a second snap of a number": ([START, SNAP, SNAP], [4]),
    "a second end": ([START, {"k": "end", **OF}, {"k": "end", **OF}], [4]),
    "a record after the end": ([START, {"k": "end", **OF}, IN], [4]),
    "ended without end": ([START, {"k": "ended", **OF}], [3]),
    # ---- the source
    "a position that becomes another record": ([START, IN, {**START, "a": 2}, {**IN, "a": 2, "id": 2}], [5]),
    "a position that becomes a watermark": (
        [START, IN, {**START, "a": 2}, {"k": "wm", "s": 0, "a": 2, "pos": 0, "w": 1}],
        [5],
    ),
    "a watermark that becomes another": (
        [
            START,
            {"k": "wm", **OF, "pos": 0, "w": 1},
            {**START, "a": 2},
            {"k": "wm", "s": 0, "a": 2, "pos": 0, "w": 2},
        ],
        [5],
    ),
    "an id at two positions": ([START, IN, {**IN, "pos": 1}], [4]),
    "an id in two subtasks": ([START, {**START, "s": 1}, IN, {**IN, "s": 1}], [5]),
    "an id with a key and without": ([START, {**IN, "key": None}, {**START, "a": 2}, {**IN, "a": 2}], [5]),
    "an id with two keys": (
        [START, {**IN, "key": 1}, {**START, "a": 2}, {**IN, "a": 2, "key": 1.0}],
        [5],
    ),
    "an id with two timestamps": ([START, {**IN, "ts": 1}, {**START, "a": 2}, {**IN, "a": 2}], [5]),
    "an id with two expectations": (
        [START, {**IN, "expect": [1]}, {**START, "a": 2}, {**IN, "a": 2, "expect": [1.0]}],
        [5],
    ),
    # ---- the database and the faults
    "one seq twice": (
        [
            START,
            {"k": "effect", "s": 0, "id": 1, "token": 1, "seq": 7},
            {"k": "effect", "s": 0, "id": 2, "token": 1, "seq": 7},
        ],
        [4],
    ),
    "a fault that ends before it begins": ([{"k": "fault", "f": "cut", "phase": "end", "evidence": {}}], [2]),
    "a fault that ends twice": (
        [
            {"k": "fault", "f": "cut", "phase": "begin"},
            {"k": "fault", "f": "cut", "phase": "end", "evidence": {}},
            {"k": "fault", "f": "cut", "phase": "end", "evidence": {}},
        ],
        [4],
    ),
}

LEGAL: dict[str, list[dict[str, Any] | str]] = {
    "gaps in n and equal t": [{**START, "n": -3, "t": 0}, {**IN, "n": 99, "t": 0}],
    "unknown fields of an event": [{**START, "host": None, "pid": 7}],
    "fields of another kind": [START, {"k": "done", "c": 1, "s": "x", "a": None}],
    "outside an attempt's life, which is V21's": [
        {"k": "out", **OF, "id": 1, "j": 0, "v": 1},
        START,
        {"k": "close", **OF},
        {"k": "owm", **OF, "w": 1},
        KILL,
    ],
    "a zombie's events": [START, IN, {**START, "a": 4}, {**IN, "pos": 1, "id": 2}],
    "a restart that never reads": [START, SNAP, AGAIN, {"k": "call", "s": 0, "a": 2, "id": 1, "try": 1}],
    "a restart that reads from anywhere": [START, SNAP, AGAIN, RESTORE, {**IN, "a": 2, "pos": 9}],
    "ids 1 and '1'": [START, IN, {**IN, "pos": 1, "id": "1"}],
    "expect given once": [START, IN, {**START, "a": 2}, {**IN, "a": 2, "expect": [1]}, {**START, "a": 3},
                          {**IN, "a": 3}],
    "a ts of null is an absent one": [START, {**IN, "ts": None}, {**START, "a": 2}, {**IN, "a": 2}],
    "ended twice": [START, {"k": "end", **OF}, {"k": "ended", **OF}, {"k": "ended", **OF}],
    "faults of one name that overlap": [
        {"k": "fault", "f": "cut", "phase": "begin"},
        {"k": "fault", "f": "cut", "phase": "begin", "stalls": True},
        {"k": "fault", "f": "cut", "phase": "end", "evidence": {}},
        {"k": "fault", "f": "cut", "phase": "end", "evidence": {"resets": 1}},
    ],
    "white space around a line": [" \t" + json.dumps({"n": 1, "t": 1, **START}) + " \r"],
    "integers and doubles beyond machine words": [
        START,
        {"k": "wm", **OF, "pos": 0, "w": 10**40},
        '{"n":3,"t":3,"k":"giveup","why":[1e999,-0.0,' + "9" * 5000 + "]}",
    ],
    "half a character": ['{"n":1,"t":1,"k":"giveup","why":"\\ud800"}'],
}  # fmt: skip


@each("name", BAD_HEADERS)
def test_a_bad_header_is_told_with_line_1(name: str) -> None:
    assert set(lines(text(START, header=BAD_HEADERS[name]))) == {1}


@each("name", BAD_EVENTS)
def test_a_bad_event_is_told_with_its_line_and_no_other(name: str) -> None:
    events, expected = BAD_EVENTS[name]

    assert lines(text(*events)) == expected


@each("name", LEGAL)
def test_what_is_odd_but_legal_is_read(name: str) -> None:
    reader = read(text(*LEGAL[name]))

    assert reader.breaches == []
    assert reader.warnings == []


def test_every_breach_is_told_at_once() -> None:
    header = {**HEADER, "sink": "none", "operator": {"mode": "ordered"}}

    found = lines(text({**START, "t": -1}, {"k": "nothing"}, {**IN, "pos": 4}, header=header))

    assert found == [1, 1, 1, 2, 3, 4]


def test_an_effect_of_claimed_outputs_names_its_output() -> None:
    effect = {"k": "effect", "s": 0, "id": 1, "token": 1, "seq": 1}

    assert lines(text(effect, {**effect, "j": 0, "seq": 2}, header={**HEADER, "effects": "outputs"})) == [2]


@each("torn", [b'{"n":2,"t":2,"k":"do', b"\xe2\x82", b"[1]", b"  ", b'{"n":2,"n":2}', b'{"n":NaN}'])
def test_a_torn_last_line_is_dropped_with_a_warning(torn: bytes) -> None:
    reader = read(text(START) + torn)

    assert reader.breaches == []
    assert len(reader.warnings) == 1
    assert "line 3" in reader.warnings[0]


def test_a_last_line_that_parses_is_no_torn_one_though_it_lacks_its_line_feed() -> None:
    whole = text(START, {"k": "done"})

    assert lines(whole.removesuffix(b"\n")) == [3]


@pytest.mark.parametrize("data", [b"", b'{"history":1', b"\n", b"\xff\n"])
def test_a_cut_header_is_malformed(data: bytes) -> None:
    assert lines(data) == [1]


def test_a_line_that_is_not_utf8_is_malformed() -> None:
    assert lines(text(START) + b'{"n":2,"t":2,"k":"giveup","why":"\xff"}\n') == [3]


@pytest.mark.parametrize("depth", [400, 200_000])
def test_nesting_beyond_all_reason_is_a_breach_and_no_crash(depth: int) -> None:
    deep = '{"n":2,"t":2,"k":"giveup","why":' + "[" * depth + "]" * depth + "}"

    assert lines(text(START, deep)) == [3]


def test_nesting_within_reason_is_read_and_compared() -> None:
    deep: list[Any] = []
    for _ in range(250):
        deep = [deep]

    assert lines(text(START, {**IN, "expect": deep}, {**START, "a": 2}, {**IN, "a": 2, "expect": deep})) == []


def test_no_event_comes_out_after_the_first_breach() -> None:
    reader = open_text(text(START, {"k": "nothing"}, {"k": "done", "c": 1}))

    assert [event.n for event in reader.events()] == [1]
