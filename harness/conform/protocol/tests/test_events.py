"""An event is what the page says, to the type of each field; everything else is malformed."""

from __future__ import annotations

import pytest

from harness.conform.protocol.events import Emit, Event, FunctionCall, MalformedEvent, Snapshot, read_event
from tools.cases import each

GOOD: list[tuple[bytes, Event]] = [
    (b'{"ev":"call","call":1,"value":null,"attempt":1}', FunctionCall(call=1, value=None, attempt=1)),
    (b' {"ts": null, "value": [1.5], "ev": "emit"} \r', Emit(value=[1.5], ts=None)),
    (b'{"ev":"emit","value":123456789012345678901,"ts":-1}', Emit(value=123456789012345678901, ts=-1)),
]
BAD: list[tuple[bytes, str]] = [
    (b'{"ev":"dance"}', "dance"),
    (b"{}", "ev"),
    (b'[{"ev":"quiet"}]', "object"),
    (b'{"ev":"quiet"}{"ev":"quiet"}', "trailing"),
    (b'{"ev":"quiet","more":1}', "more"),
    (b'{"ev":"emit","ts":1}', "value"),
    (b'{"ev":"emit","value":NaN,"ts":1}', "malformed"),
    (b'{"ev":"emit","value":1,"ts":1.0}', "float"),
    (b'{"ev":"emit","value":1,"ts":true}', "bool"),
    (b'{"ev":"emit","value":1,"ts":"1"}', "str"),
    (b'{"ev":"call","call":0,"value":1,"attempt":1}', ">= 1"),
    (b'{"ev":"call","call":1,"value":1,"attempt":0}', ">= 1"),
    (b'{"ev":"status","idle":1}', "int"),
    (b'{"ev":"watermark","ts":null}', "null"),
    (b'{"ev":"failed","error":"bad-luck","message":""}', "bad-luck"),
    (b'{"ev":"error","error":"bad-luck","message":""}', "bad-luck"),
    (b'{"ev":"closed","dropped_mails":-1,"timers":0}', ">= 0"),
    (b'{"ev":"closed","dropped_mails":0}', "timers"),
    (b'{"ev":"stats","queue":0,"calls_running":0,"timers":0,"mails":0,"now":null}', "null"),
    (b'{"ev":"snapshot","id":1,"elements":[]}', "state"),
    (b'{"ev":"snapshot","id":1,"state":0,"elements":[{"value":1}]}', "elements[0]"),
    (b'{"ev":"snapshot","id":1,"state":0,"elements":[{"value":1,"ts":true}]}', "elements[0]"),
    (b'{"ev":"snapshot","id":1,"state":0,"elements":[{"idle":true},{"watermark":1,"ts":1}]}', "elements[1]"),
    (b'{"ev":"snapshot","id":1,"state":0,"elements":[{"idle":0}]}', "elements[0]"),
    (b'{"ev":"emit","value":"\xff","ts":1}', "UTF-8"),
    (b'{"ev":"emit","value":' + b"[" * 5_000 + b"]" * 5_000 + b',"ts":1}', "deep"),
    (b"", "truncated"),
]


@pytest.mark.parametrize(("line", "event"), GOOD)
def test_an_event_is_read_to_the_letter(line: bytes, event: Event) -> None:
    assert read_event(line) == event


@each(("line", "word"), BAD, ids=[line.decode("ascii", "replace")[:60] for line, _ in BAD])
def test_what_is_no_event_is_refused_with_the_reason(line: bytes, word: str) -> None:
    with pytest.raises(MalformedEvent) as caught:
        read_event(line)

    assert word in str(caught.value)


def test_a_state_is_kept_as_it_was_written() -> None:
    event = read_event(b'{"ev":"snapshot","id":1,"state":{"b": 1, "a":[1e2]},"elements":[{"idle":true}]}')

    assert isinstance(event, Snapshot)
    assert bytes(event.state) == b'{"b": 1, "a":[1e2]}'
