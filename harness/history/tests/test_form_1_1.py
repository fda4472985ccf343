"""The rules that form 1.1 adds: for each the smallest file that breaks it, and a legal one that is near to it."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, NamedTuple

import pytest

from harness.history.event import Event, Failed, FaultEvent, Kill, Res, Start
from harness.history.header import Header, Retry, header_json
from harness.history.read import open_text
from harness.history.tests.small_texts import HEADER, IN, OF, START, lines, read, text
from harness.history.text import header_line
from tools.cases import each

Json = dict[str, Any]
OUTPUTS = {"holds": ["outputs"]}
FIXED = {"backoff": "fixed", "initial_ms": 5}
GROWING = {"backoff": "exponential", "initial_ms": 5, "multiplier": 2}


def tables(**given: Json) -> Json:
    return {**HEADER, "tables": given}


def retrying(**given: Any) -> Json:
    return {**HEADER, "operator": {**HEADER["operator"], "retry": given}}


def operating(**given: Any) -> Json:
    return {**HEADER, "operator": {**HEADER["operator"], **given}}


BY_OUTPUT = {**HEADER, "effects": "outputs"}
BOTH = {"holds": ["effects", "outputs"]}
HEADER_PAIRS: dict[str, tuple[Json, Json]] = {
    "tables that are a list": ({**HEADER, "tables": []}, tables()),
    "a table that is a name": ({**HEADER, "tables": {"t": "outputs"}}, tables(t=OUTPUTS)),
    "a table that holds nothing": (tables(t={"holds": []}), tables(t={"holds": ["effects"]})),
    "a table without holds": (tables(t={}), tables(t={"holds": ["dead"]})),
    "a table that holds one thing twice": (tables(t={"holds": ["outputs"] * 2}), tables(t=OUTPUTS)),
    "a table that holds what does not exist": (tables(t={"holds": ["rows"]}), tables(t=OUTPUTS)),
    "dead letters beside outputs": (
        tables(t={"holds": ["dead", "outputs"]}),
        tables(t={"holds": ["dead"]}, u=OUTPUTS),
    ),
    "an audit beside effects": (
        tables(t={"holds": ["audit", "effects"]}),
        tables(t={"holds": ["audit"]}, u={"holds": ["effects"]}),
    ),
    "two audits": (
        tables(t={"holds": ["audit"]}, u={"holds": ["audit"]}),
        tables(t={"holds": ["dead"]}, u={"holds": ["dead"]}),
    ),
    "an audit with keep": (tables(t={"holds": ["audit"], "keep": "all"}), tables(t={**OUTPUTS, "keep": "all"})),
    "an audit with ordered": (
        tables(t={"holds": ["audit"], "ordered": False}),
        tables(t={"holds": ["dead"], "ordered": False}),
    ),
    "a keep that does not exist": (tables(t={**OUTPUTS, "keep": "some"}), tables(t={**OUTPUTS, "keep": "last"})),
    "an unknown field of a table": (tables(t={**OUTPUTS, "key": 1}), tables(t={**OUTPUTS, "ordered": True})),
    "outputs and effects of records": (
        {**tables(t=BOTH), "effects": "records"},
        {**tables(t=BOTH), "effects": "outputs"},
    ),
    "outputs and effects of no claim": (tables(t=BOTH), {**BY_OUTPUT, **tables(t=OUTPUTS)}),
    "a write by key into a sink that appends": (
        {**tables(t={**OUTPUTS, "keep": "first"}), "sink": "append"},
        {**tables(t={**OUTPUTS, "keep": "first"}), "sink": "rollback"},
    ),
    "a write by key into an atomic sink": (
        {**tables(t={**OUTPUTS, "keep": "last"}), "sink": "atomic"},
        {**tables(t={**OUTPUTS, "keep": "all"}, u={"holds": ["dead"], "keep": "last"}), "sink": "atomic"},
    ),
    "dead letters in order": (
        tables(t={"holds": ["dead"], "ordered": True}),
        {**BY_OUTPUT, **tables(t={**BOTH, "ordered": True})},
    ),
    "an order of what is kept by key": (
        tables(t={**OUTPUTS, "keep": "first", "ordered": True}),
        tables(t={**OUTPUTS, "keep": "all", "ordered": True}),
    ),
    "an explanation that does not exist": ({**HEADER, "explained": True}, {**HEADER, "explained": "alone"}),
    "an origin that does not exist": ({**HEADER, "expect_from": "sql"}, {**HEADER, "expect_from": "calm"}),
    "by_key as a string": ({**HEADER, "by_key": "yes"}, {**HEADER, "by_key": True}),
    "versions as a number": ({**HEADER, "versions": 1}, {**HEADER, "versions": False}),
    "an error policy of timeouts": (operating(on_error="substitute"), operating(on_timeout="substitute")),
    "a policy that does not exist": (operating(on_timeout="drop"), operating(on_timeout="dead", on_error="fail")),
    "a retry that is a number": (operating(retry=3), retrying(**FIXED)),
    "a retry without backoff": (retrying(initial_ms=5), retrying(**FIXED)),
    "a retry without its first wait": (retrying(backoff="fixed"), retrying(backoff="fixed", initial_ms=0)),
    "a backoff that does not exist": (retrying(**{**FIXED, "backoff": "linear"}), retrying(**GROWING)),
    "a growing backoff without multiplier": (
        retrying(backoff="exponential", initial_ms=1, max_ms=5),
        retrying(**GROWING, max_ms=0),
    ),
    "a fixed backoff with multiplier": (retrying(**FIXED, multiplier=2), retrying(**GROWING)),
    "a fixed backoff with a limit": (retrying(**FIXED, max_ms=9), retrying(**GROWING, max_ms=9)),
    "a multiplier below 1": (
        retrying(**{**GROWING, "multiplier": 0.999}),
        retrying(**{**GROWING, "multiplier": 1.0}),
    ),
    "a multiplier that is true": (
        retrying(**{**GROWING, "multiplier": True}),
        retrying(**{**GROWING, "multiplier": 1}),
    ),
    "a wait with a fraction": (retrying(**{**FIXED, "initial_ms": 0.5}), retrying(**FIXED, slack_ms=7)),
    "an outcome that cannot be retried": (retrying(**FIXED, on=["ok"]), retrying(**FIXED, on=["empty"])),
    "an outcome named twice": (
        retrying(**FIXED, on=["fail", "empty", "fail"]),
        retrying(**FIXED, on=["unknown", "empty", "fail"]),
    ),
    "outcomes without a list": (retrying(**FIXED, on="fail"), retrying(**FIXED, on=[])),
    "an end that does not exist": (retrying(**FIXED, at_end="never"), retrying(**FIXED, at_end="same")),
    "a profile that does not exist": (retrying(**FIXED, profile="lax"), retrying(**FIXED, profile="flink")),
    "an unknown field of retry": (retrying(**FIXED, tries=3), retrying(**FIXED, at_end="once")),
    "a measurement beside V24": ({**HEADER, "decisive": ["V22", "V24"]}, {**HEADER, "decisive": ["V24"]}),
}  # fmt: skip


@each("name", HEADER_PAIRS)
def test_a_header_of_form_1_1_that_breaks_a_rule_is_told_once_and_its_neighbour_is_read(name: str) -> None:
    broken, legal = HEADER_PAIRS[name]

    assert lines(text(START, header=broken)) == [1]
    reader = read(text(START, header=legal))
    assert reader.breaches == []
    assert reader.header is not None
    again = open_text(header_line(reader.header))
    assert again.header == reader.header


class Pair(NamedTuple):
    header: Json
    broken: list[Json]
    told: list[int]
    legal: list[Json]


def row(**given: Any) -> Json:
    return {"k": "row", "table": "t", "id": 1, **given}


def change(phase: str, ver: int, **key: Any) -> Json:
    return {"k": "change", "phase": phase, "ver": ver, **key}


def cut(**given: Any) -> Json:
    return {"k": "fault", "f": "cut", "phase": "begin", **given}


READ: Json = {"k": "read", "table": "t", "rows": 1}
T = tables(t=OUTPUTS)
EFFECTS = {"holds": ["effects"]}
DEAD = tables(t={"holds": ["dead"]})
IN_ORDER = tables(t={**OUTPUTS, "ordered": True}, u={**OUTPUTS, "ordered": True})
EXPLAINED = {**HEADER, "explained": "alone"}
RES: Json = {"k": "res", **OF, "id": 1, "try": 1, "r": "fail", "final": False}
ACK: Json = {"k": "ack", **OF, "c": 1}
EVENT_PAIRS: dict[str, Pair] = {
    "a row of a table that the header lacks": Pair(T, [row(table="u", j=0)], [2], [row(j=0)]),
    "a row without tables in the header": Pair(HEADER, [row(j=0)], [2], [IN | {"k": "done", "c": 1}]),
    "a read of a table that the header lacks": Pair(T, [READ | {"table": "u"}], [2], [READ]),
    "a row of the audit": Pair(
        tables(t={"holds": ["audit"]}), [row(j=0)], [2], [READ | {"rows": 0}]
    ),
    "two reads of a table": Pair(
        tables(t=OUTPUTS, u=OUTPUTS), [READ, READ], [3], [READ, READ | {"table": "u"}]
    ),
    "a row after its table was read": Pair(
        tables(t=OUTPUTS, u=OUTPUTS), [READ, row(j=0)], [3], [READ, row(table="u", j=0), READ | {"table": "u"}]
    ),
    "a read that counts below 0": Pair(T, [READ | {"rows": -1}], [2], [READ | {"rows": 10**20}]),
    "a read without its count": Pair(T, [{"k": "read", "table": "t"}], [2], [READ]),
    "a row of outputs without j": Pair(T, [row()], [2], [row(j=0), row(j=0)]),
    "a row of effects of outputs without j": Pair(
        {**tables(t=EFFECTS), "effects": "outputs"}, [row()], [2], [row(j=3)]
    ),
    "a row of outputs without j, by records": Pair(
        {**tables(t=OUTPUTS, u=EFFECTS), "effects": "records"}, [row()], [2], [row(table="u")]
    ),
    "a row with a negative j": Pair(DEAD, [row(j=-1)], [2], [row()]),
    "a row of an ordered table without seq": Pair(IN_ORDER, [row(j=0)], [2], [row(j=0, seq=-5)]),
    "one seq twice in an ordered table": Pair(
        IN_ORDER,
        [row(j=0, seq=1), row(j=1, seq=1)],
        [3],
        [row(j=0, seq=1), row(table="u", j=0, seq=1), row(j=1, seq=0)],
    ),
    "a seq that is null": Pair(T, [row(j=0, seq=None)], [2], [row(j=0, seq=1), row(j=1, seq=1)]),
    "a row without an id": Pair(DEAD, [{"k": "row", "table": "t"}], [2], [row(error=None, v=None)]),
    "a row with a token that is a string": Pair(DEAD, [row(token="1")], [2], [row(token=1, c=-1)]),
    "a row whose table is a number": Pair(DEAD, [row(table=1)], [2], [row(seq=1)]),
    "an expectation though there is none": Pair(
        {**HEADER, "expect_from": "none"},
        [START, {**IN, "expect": []}],
        [3],
        [START, IN],
    ),
    "a fault named outside": Pair(EXPLAINED, [cut(f="outside")], [2], [cut(f="outsider")]),
    "a fault named planted": Pair(EXPLAINED, [cut(f="planted")], [2], [cut(f="cut")]),
    "a cause that is null": Pair(
        EXPLAINED, [START, {"k": "kill", **OF, "by": None}], [3], [START, {"k": "kill", **OF, "by": "unheard of"}]
    ),
    "a cause of a start that is a number": Pair(EXPLAINED, [START | {"by": 1}], [2], [START | {"by": "planted"}]),
    "a cause of a failure that is a list": Pair(
        EXPLAINED,
        [START, {"k": "failed", **OF, "error": 1, "by": ["cut"]}],
        [3],
        [START, {"k": "failed", **OF, "error": 1, "by": "outside"}],
    ),
    "a fault that can do what it cannot": Pair(
        EXPLAINED, [cut(can=["ended"])], [2], [cut(can=["failed", "kill", "start", "res", "res"])]
    ),
    "a fault of a subtask that is a name": Pair(EXPLAINED, [cut(s="0")], [2], [cut(s=0)]),
    "a fault of a negative subtask": Pair(
        EXPLAINED,
        [cut(s=-1)],
        [2],
        [cut(), {"k": "fault", "f": "cut", "phase": "end", "evidence": {}, "s": -1, "can": 7}],
    ),
    "a retry that is maybe": Pair(
        retrying(**FIXED), [START, IN, RES | {"retry": 1}], [4], [START, IN, RES | {"retry": False, "ver": -1}]
    ),
    "a version below 0": Pair(
        {**HEADER, "versions": True},
        [START, IN, RES | {"ver": -1}],
        [4],
        [START, IN, RES | {"ver": 0, "retry": "?", "by": 0}],
    ),
    "an acknowledgement without a number": Pair(HEADER, [{"k": "ack", **OF}], [2], [ACK, ACK]),
    "an acknowledgement of attempt 0": Pair(
        HEADER, [ACK | {"a": 0}], [2], [ACK, START, {"k": "kill", **OF}, ACK, ACK | {"s": 9}]
    ),
    "a change to version 0": Pair(HEADER, [change("begin", 0)], [2], [change("begin", 1)]),
    "a change without a phase": Pair(HEADER, [{"k": "change", "ver": 1}], [2], [change("begin", 1, key=None)]),
    "a version of a key that does not rise": Pair(
        HEADER,
        [change("begin", 2, key="a"), change("end", 2, key="a"), change("begin", 2, key="a")],
        [4],
        [change("begin", 2, key="a"), change("begin", 2, key="b"), change("begin", 1, key="c")],
    ),
    "a version of every key below that of one": Pair(
        HEADER,
        [change("begin", 3, key="a"), change("begin", 4, key="b"), change("begin", 4)],
        [4],
        [change("begin", 3, key="a"), change("begin", 4)],
    ),
    "a version of a key below that of every key": Pair(
        HEADER,
        [change("begin", 3), change("begin", 3, key="a")],
        [3],
        [change("begin", 3), change("begin", 4, key="a"), change("begin", 4, key="b")],
    ),
    "an end of a change that has not begun": Pair(
        HEADER,
        [change("begin", 1, key=1), change("end", 1, key=1.0)],
        [3],
        [change("begin", 1, key={"a": 1, "b": 2}), change("end", 1, key={"b": 2, "a": 1})],
    ),
    "an end of another version": Pair(
        HEADER,
        [change("begin", 1), change("end", 2)],
        [3],
        [change("begin", 1), change("begin", 2), change("end", 1), change("end", 2)],
    ),
    "a change that ends twice": Pair(
        HEADER,
        [change("begin", 1), change("end", 1), change("end", 1)],
        [4],
        [change("begin", 1), change("end", 1), change("begin", 2), change("end", 2)],
    ),
    "an end without a key of a change of a null key": Pair(
        HEADER,
        [change("begin", 1, key=None), change("end", 1)],
        [3],
        [change("begin", 1, key=None), change("end", 1, key=None)],
    ),
}  # fmt: skip


@each("name", EVENT_PAIRS)
def test_an_event_of_form_1_1_that_breaks_a_rule_is_told_by_its_line_and_its_neighbour_is_read(
    name: str,
) -> None:
    pair = EVENT_PAIRS[name]

    assert lines(text(*pair.broken, header=pair.header)) == pair.told
    assert lines(text(*pair.legal, header=pair.header)) == []


def test_a_header_that_is_malformed_leaves_the_tables_of_rows_open() -> None:
    assert lines(text(row(), READ, header={**T, "sink": "none"})) == [1]


def test_an_unreadable_line_may_have_been_the_begin_of_a_change() -> None:
    assert lines(text("nonsense", change("end", 1), change("end", 2))) == [2, 4]


FIELDS_OF_CLAIMS: dict[str, tuple[Json, list[Json]]] = {
    "by": (EXPLAINED, [START, {"k": "failed", **OF, "error": 1}, RES, {"k": "kill", **OF}]),
    "can": (EXPLAINED, [cut()]),
    "s": (EXPLAINED, [cut()]),
    "retry": (retrying(**FIXED), [RES]),
    "ver": ({**HEADER, "versions": True}, [RES]),
}
GIVEN: dict[str, Any] = {"by": "outside", "can": ["kill"], "s": 3, "retry": True, "ver": 7}


def of(event: Event, name: str) -> Any:
    assert isinstance(event, (Start, Failed, Res, Kill, FaultEvent))
    return getattr(event, name)


@pytest.mark.parametrize("field", FIELDS_OF_CLAIMS)
def test_a_new_field_of_an_old_kind_is_read_where_its_claim_is_made_and_else_ignored(field: str) -> None:
    claiming, events = FIELDS_OF_CLAIMS[field]
    for at, event in enumerate(events):
        before = [START] if event in (RES, START) or event.get("a") else []
        given = text(*[e for e in before if e is not event], {**event, field: GIVEN[field]}, header=claiming)
        odd = text(*[e for e in before if e is not event], {**event, field: object_of_any_type()})

        assert of(list(open_text(given).events())[-1], field) == GIVEN[field], at
        reader = open_text(odd)
        assert list(reader.events())[-1] == list(open_text(without(odd, field)).events())[-1], at
        assert reader.breaches == []


def object_of_any_type() -> Any:
    """A value that is ill-typed for every new field."""
    return {"x": 1}


def without(history: bytes, field: str) -> bytes:
    rest = [{k: v for k, v in json.loads(line).items() if k != field} for line in history.splitlines()[1:]]
    return history.splitlines()[0] + b"\n" + b"".join(json.dumps(line).encode() + b"\n" for line in rest)


@each(
    ("written", "meant"),
    [
        ("2", "2"),
        ("2.50", "2.5"),
        ("1.1", "1.1"),
        ("1e1", "10"),
        ("1.00000000000000000000000000001", "1.00000000000000000000000000001"),
        ("1e999", "1e999"),
    ],
)
def test_a_multiplier_is_the_decimal_that_is_written(written: str, meant: str) -> None:
    header = json.dumps(retrying(**GROWING)).replace('"multiplier": 2', f'"multiplier": {written}')

    read_once = open_text(header.encode() + b"\n").header
    assert read_once is not None
    again = open_text(header_line(read_once)).header

    for found in (read_once, again):
        assert found is not None
        assert found.operator.retry is not None
        assert Decimal(str(found.operator.retry.multiplier)) == Decimal(meant)


def test_a_multiplier_that_only_rounds_to_1_is_below_1() -> None:
    header = json.dumps(retrying(**GROWING)).replace(
        '"multiplier": 2', '"multiplier": 0.99999999999999999999999'
    )

    assert lines(header.encode() + b"\n") == [1]


def test_a_header_leaves_out_the_defaults_of_its_parts() -> None:
    header = open_text(
        text(header={**retrying(**FIXED, on=["fail"]), "tables": {"t": {**OUTPUTS, "keep": "all"}}})
    ).header

    assert isinstance(header, Header)
    assert header.operator.retry == Retry(backoff="fixed", initial_ms=5)
    assert header_json(header) == {**retrying(**FIXED), "tables": {"t": OUTPUTS}}
