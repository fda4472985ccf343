"""The oracle under abuse: long lines, deep nesting, huge numbers, a hundred thousand commands, a sudden end."""

from __future__ import annotations

import json

import psutil
import pytest

from harness.conform.oracle.tests.talk import Talk, call, kinds

pytestmark = pytest.mark.oracle

MEGABYTE = 1 << 20


def test_a_megabyte_passes(talk: Talk) -> None:
    talk.open()
    long = "x" * MEGABYTE

    assert talk.element(long) == [call(1, long)]


def test_a_line_that_is_too_long_is_refused_and_the_next_one_is_heard(fresh: Talk) -> None:
    fresh.say("hello", protocol=1)

    fresh.send(b'"' + b"x" * (33 * MEGABYTE) + b'"\n')

    assert fresh.hear()[0]["error"] == "bad-argument"
    assert fresh.error("stats") == "bad-state"


@pytest.mark.parametrize(
    "value",
    ["[" * 100_000 + "]" * 100_000, "[" * 100_000, "9" * 100_000, "1e99999999999"],
    ids=["deep", "deep-and-open", "long-number", "huge-exponent"],
)
def test_what_is_beyond_reason_is_an_answer_or_a_clean_error(talk: Talk, value: str) -> None:
    talk.open()

    talk.send(f'{{"cmd":"element","value":{value},"ts":null}}\n'.encode())

    assert kinds(talk.hear()) in (["call"], ["error"])
    assert kinds(talk.say("stats")) == ["stats"]


@pytest.mark.parametrize("last", ['{"cmd":"stats"}', '{"cmd":"sta', ""])
def test_the_end_of_input_ends_the_program_whatever_it_waits_for(fresh: Talk, last: str) -> None:
    fresh.say("hello", protocol=1)
    fresh.open(capacity=1)
    fresh.element("a")
    assert fresh.element("b") == [{"ev": "blocked"}]
    fresh.send(last.encode())

    rest, status = fresh.hang_up()

    assert status == 0
    assert rest.count(b'"quiet"') == (1 if last else 0)


def test_a_hundred_thousand_commands_take_no_more_memory_than_ten_thousand(fresh: Talk) -> None:
    """Calls of finished records are forgotten, timers are cancelled, the record's own objects go."""
    fresh.say("hello", protocol=1)
    fresh.open(capacity=10, timeout_ms=1000)
    program = psutil.Process(fresh.pid)
    sizes = []
    for batch in range(10):
        first = batch * 5_000 + 1
        for number in range(first, first + 5_000, 50):
            _fifty(fresh, number)
        sizes.append(program.memory_info().rss)

    assert fresh.say("stats")[0]["queue"] == 0
    assert sizes[-1] < sizes[1] + 100 * MEGABYTE


def _fifty(talk: Talk, first: int) -> None:
    """Fifty elements and their outcomes in one piece."""
    lines = []
    for number in range(first, first + 50):
        lines.append({"cmd": "element", "value": number, "ts": None})
        lines.append({"cmd": "complete", "call": number, "results": [number]})
    talk.send("".join(json.dumps(line) + "\n" for line in lines).encode())
    for _ in lines:
        talk.hear()
