"""The oracle takes turns as `sut-protocol.md` says: order of commands, refusals, values, the page's own example."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.conform.oracle.program import FLINK_VERSION
from harness.conform.oracle.tests.talk import Talk, call, emit, kinds

pytestmark = pytest.mark.oracle

RETRY = {"strategy": "fixed", "max_retries": 1, "delay_ms": 10, "on": ["error"]}
OPEN: dict[str, Any] = {"now": 0, "restore": None}
CONFIG: dict[str, Any] = {"mode": "ordered", "capacity": 2, "timeout_ms": 100}


def test_it_says_who_it_is_and_claims_no_status(fresh: Talk) -> None:
    [hello] = fresh.say("hello", protocol=1)

    assert (hello["name"], hello["version"], hello["protocol"]) == ("flink", FLINK_VERSION, 1)
    assert hello["abilities"] == ["ordered", "unordered", "retry", "snapshot", "marker", "flink-profile"]


def test_before_hello_nothing_is_in_order_and_a_wrong_protocol_greets_nobody(fresh: Talk) -> None:
    assert fresh.error("stats") == "bad-state"
    assert fresh.error("hello", protocol=2) == "unsupported"
    assert fresh.error("stats") == "bad-state"
    assert kinds(fresh.say("hello", protocol=1)) == ["hello"]
    assert fresh.error("hello", protocol=1) == "bad-state"


def test_the_conversation_of_the_page_goes_as_the_page_says(talk: Talk) -> None:
    assert talk.open(capacity=2, timeout_ms=1000) == []
    assert talk.element("a", 1) == [call(1, "a")]
    assert talk.element("b", 2) == [call(2, "b")]
    assert talk.say("watermark", ts=2) == [{"ev": "blocked"}]
    assert talk.complete(2, "B") == []
    events = talk.complete(1, "A")

    assert kinds(events).count("unblocked") == 1
    assert [e for e in events if e["ev"] != "unblocked"] == [
        emit("A", 1),
        emit("B", 2),
        {"ev": "watermark", "ts": 2},
    ]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"", "not-json"),
        (b"[]", "not-json"),
        (b"{", "not-json"),
        (b'{"cmd":"stats"} {}', "not-json"),
        (b'{"cmd":"element","value":NaN,"ts":1}', "not-json"),
        (b'{"cmd":"element","value":"\xff","ts":1}', "not-json"),
        (b"{}", "unknown-command"),
        (b'{"cmd":"dance"}', "unknown-command"),
        (b'{"cmd":"STATS"}', "unknown-command"),
        (b'{"cmd":7}', "unknown-command"),
        (b'{"cmd":"element","value":1}', "bad-argument"),
        (b'{"cmd":"element","value":1,"ts":1.0}', "bad-argument"),
        (b'{"cmd":"element","value":1,"ts":true}', "bad-argument"),
        (b'{"cmd":"element","value":1,"ts":9223372036854775808}', "bad-argument"),
        (b'{"cmd":"element","value":1,"ts":1,"extra":1}', "bad-argument"),
        (b'{"cmd":"element","value":1,"ts":1,"hold":1}', "bad-argument"),
        (b'{"cmd":"watermark","ts":null}', "bad-argument"),
        (b'{"cmd":"complete","call":1,"results":{}}', "bad-argument"),
        (b'{"cmd":"fail","call":1,"error":null}', "bad-argument"),
        (b'{"cmd":"notify","id":1,"outcome":"maybe"}', "bad-argument"),
        (b'{"cmd":"advance","to":-1}', "bad-argument"),
        (b'{"cmd":"complete","call":2,"results":[]}', "unknown-call"),
        (b'{"cmd":"complete","call":0,"results":[]}', "unknown-call"),
        (b'{"cmd":"fail","call":-1,"error":""}', "unknown-call"),
        (b'{"cmd":"hello","protocol":1}', "bad-state"),
        (
            b'{"cmd":"open","now":0,"restore":null,"config":{"mode":"ordered","capacity":1,"timeout_ms":0}}',
            "bad-state",
        ),
        (b'{"cmd":"status","idle":true}', "unsupported"),
    ],
)
def test_a_line_that_makes_no_sense_is_refused_and_changes_nothing(
    talk: Talk, line: bytes, code: str
) -> None:
    talk.open()
    talk.element("a")
    talk.complete(1, "A", hold=True)
    before = talk.say("stats", hold=True)

    [event] = talk.say_bytes(line)

    assert (event["ev"], event["error"]) == ("error", code)
    assert talk.say("stats", hold=True) == before, "no waiting mail was run"
    assert talk.advance(0) == [emit("A")]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"mode": "sorted"}, "bad-argument"),
        ({"capacity": 0}, "bad-argument"),
        ({"capacity": "2"}, "bad-argument"),
        ({"timeout_ms": -1}, "bad-argument"),
        ({"speed": 1}, "bad-argument"),
        ({"on_timeout": "perhaps"}, "bad-argument"),
        ({"on_timeout": {"results": 1}}, "bad-argument"),
        ({"on_timeout": {"results": [], "throw": "x"}}, "bad-argument"),
        ({"on_timeout": {}}, "bad-argument"),
        ({"invoke_throws": 1}, "bad-argument"),
        ({"profile": "loose"}, "bad-argument"),
        ({"profile": "flink", "retry": RETRY, "timeout_ms": 0}, "bad-argument"),
        ({"profile": "flink", "retry": {**RETRY, "on": []}}, "bad-argument"),
        ({"profile": "flink", "retry": {**RETRY, "on": ["luck"]}}, "bad-argument"),
        ({"profile": "flink", "retry": {**RETRY, "max_retries": 0}}, "bad-argument"),
        ({"profile": "flink", "retry": {**RETRY, "delay_ms": 0}}, "bad-argument"),
        ({"profile": "flink", "retry": {**RETRY, "delay_ms": 1.5}}, "bad-argument"),
        ({"profile": "flink", "retry": {**RETRY, "max_ms": 10}}, "bad-argument"),
        ({"profile": "flink", "retry": {**RETRY, "strategy": "random"}}, "bad-argument"),
        ({"profile": "strict", "retry": RETRY}, "unsupported"),
        ({"retry": RETRY}, "unsupported"),
    ],
)
def test_a_bad_configuration_opens_nothing(talk: Talk, change: dict[str, Any], code: str) -> None:
    assert talk.error("open", **OPEN, config={**CONFIG, **change}) == code
    assert talk.error("stats") == "bad-state"


@pytest.mark.parametrize("missing", ["mode", "capacity", "timeout_ms"])
def test_a_configuration_lacks_nothing(talk: Talk, missing: str) -> None:
    config = {name: value for name, value in CONFIG.items() if name != missing}

    assert talk.error("open", **OPEN, config=config) == "bad-argument"


@pytest.mark.parametrize(
    "restore",
    [
        "state",
        {},
        {"offsets": [0], "bytes": "?"},
        {"offsets": [0], "bytes": "AAAA"},
        {"offsets": 1, "bytes": ""},
    ],
)
def test_a_state_that_is_not_ours_opens_nothing(talk: Talk, restore: Any) -> None:
    assert talk.error("open", now=0, restore=restore, config=CONFIG) == "bad-argument"
    assert talk.error("stats") == "bad-state"


@pytest.mark.parametrize(
    "text",
    [
        "null",
        "12345678901234567890123456789",
        "1e400",
        "-0.125",
        '"\\ud83d\\ude00 \\u0000 \\ud800"',
        '{"a":[true,false,{"b":[]}]}',
        "[" * 400 + "]" * 400,
    ],
)
def test_a_value_comes_out_as_it_went_in(talk: Talk, text: str) -> None:
    talk.open()

    talk.send(f'{{"cmd":"element","value":{text},"ts":-5}}\n{{"cmd":"snapshot","id":1}}\n'.encode())
    [invoked], [snapshot] = talk.hear(), talk.hear()
    talk.send(f'{{"cmd":"complete","call":1,"results":[{text}]}}\n'.encode())
    [emitted] = talk.hear()

    assert emitted["ts"] == -5
    assert snapshot["elements"] == [{"value": invoked["value"], "ts": -5}]
    assert emitted["value"] == invoked["value"] == json.loads(text)


def test_a_value_beside_utf_8_is_said_in_escapes(talk: Talk) -> None:
    talk.open()

    [invoked] = talk.say_bytes('{"cmd":"element","value":"é😀","ts":null}'.encode())

    assert invoked["value"] == "é😀"


def test_close_ends_an_attempt_and_open_begins_the_next_without_memory(talk: Talk) -> None:
    talk.open(now=50)
    talk.element("a")
    assert talk.complete(1, "A", hold=True) == []

    [closed] = talk.say("close")

    assert closed["ev"] == "closed"
    assert closed["dropped_mails"] > 0
    assert closed["timers"] == 1
    assert talk.error("close") == "bad-state"
    assert talk.open(now=3) == []
    assert talk.error("complete", call=1, results=[]) == "unknown-call"
    assert talk.element("b") == [call(1, "b")]
    assert talk.say("stats")[0]["now"] == 3


def test_markers_and_notifications_pass_at_once(talk: Talk) -> None:
    """A54: a latency marker overtakes what is in flight."""
    talk.open()
    talk.element("a")

    assert talk.say("marker", id=7) == [{"ev": "marker", "id": 7}]
    assert talk.say("notify", id=99, outcome="complete") == []
    assert talk.say("notify", id=99, outcome="abort") == []


def test_a_hundred_commands_in_one_piece_are_answered_one_by_one(talk: Talk) -> None:
    talk.open(timeout_ms=0, capacity=100)

    talk.send(b"".join(b'{"cmd":"element","value":%d,"ts":null}\n' % number for number in range(100)))

    assert [talk.hear() for _ in range(100)] == [[call(number + 1, number)] for number in range(100)]
