"""Whatever is on a line, it is answered rightly or by a clean error, and the conversation goes on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.conform.protocol.conversation_file import HELLO
from harness.sut.serve.config import CommandRefused
from harness.sut.serve.line import CHUNK, LINE_MAX, Lines, object_of
from harness.sut.serve.tests.speaking import lines_in_process
from tools.cases import each

MEGABYTE = 1_000_000
QUIET = {"ev": "quiet"}


def config(**fields: Any) -> bytes:
    """An `open`, its numbers as JSON texts."""
    named = {"mode": '"ordered"', "capacity": "9", "timeout_ms": "0", **fields}
    inside = ",".join(f'"{name}":{text}' for name, text in named.items())
    return f'{{"cmd":"open","now":0,"restore":null,"config":{{{inside}}}}}'.encode()


def element(value: bytes, ts: bytes = b"null") -> bytes:
    return b'{"cmd":"element","value":%s,"ts":%s}' % (value, ts)


def answers(lines: Sequence[bytes], *, opened: bytes | None = None) -> list[list[dict[str, Any]]]:
    """The answer to each line, behind a greeting and an `open`."""
    told = [HELLO.encode(), config() if opened is None else opened, *lines]
    heard: list[list[dict[str, Any]]] = [[]]
    for event in map(json.loads, lines_in_process("reference", [line + b"\n" for line in told])):
        if event == QUIET:
            heard.append([])
        else:
            heard[-1].append(event)
    assert len(heard) == len(told) + 1, "one `quiet` answers each line"
    assert heard[1] == [], heard[1]
    return heard[2:-1]


LONG = b'"' + b"x" * MEGABYTE + b'"'


@each(
    "text",
    [
        LONG,
        b"[" + b"1," * (MEGABYTE // 8) + b"1]",
        b"[" * 10 + b"]" * 10,
        b"[" * 250 + b"]" * 250,
        b'{"a":' * 250 + b"null" + b"}" * 250,
        b"1" * 20,
        b"-" + b"9" * 4000,
        b"1e308",
        b"-0.0",
        b"1" + b"0" * 307 + b".5",
        rb'"\ud83d\ude00\u0000\u007f"',
        rb'"\ud800"',
        rb'{"\udfff":"\udc00x"}',
        "\u00e9\U0001f600\u2028\ufeff".join('""').encode(),
    ],
    ids=["string", "array", "deep-10", "deep-250", "objects-250", "20-digits", "4000-digits", "1e308", "-0.0",
         "308-digits", "escapes", "half-a-pair", "half-a-pair-as-a-key", "utf-8"],
)  # fmt: skip
def test_a_value_at_the_bounds_comes_out_as_it_went_in(text: bytes) -> None:
    """Values: as a record, in a snapshot, out of its state, and as a result."""
    complete = b'{"cmd":"complete","call":1,"results":[%s]}' % text

    [called], [snapshot], [emitted] = answers([element(text), b'{"cmd":"snapshot","id":1}', complete])

    expected = repr(json.loads(text))
    assert repr(called["value"]) == expected
    assert repr(snapshot["elements"][0]["value"]) == expected
    assert repr(emitted["value"]) == expected


@each(
    ("line", "code"),
    [
        (b"x" * MEGABYTE, "not-json"),
        (element(LONG)[:-2], "not-json"),
        (b'{"cmd":' + LONG + b"}", "unknown-command"),
        (b"\xef\xbb\xbf" + b'{"cmd":"stats"}', "not-json"),
        (element(b'"\xff"'), "not-json"),
        (element(b'"\xed\xa0\x80"'), "not-json"),
        (element(b'"\xc3'), "not-json"),
        (b'{"cmd":"stats"}'.decode().encode("utf-16"), "not-json"),
        (b"\x00", "not-json"),
        (b'{"cmd":"stats"}\x00', "not-json"),
        (element(b'"\x00"'), "not-json"),
        (b"", "not-json"),
        (b"   ", "not-json"),
        (element(b"NaN"), "not-json"),
        (element(b"Infinity"), "not-json"),
        (element(b"[-Infinity]"), "not-json"),
        (element(b"1e400"), "bad-argument"),
        (element(b"[{},-1E999999999999]"), "bad-argument"),
        (element(b"9" * 400 + b".5"), "bad-argument"),
        (element(b"9" * MEGABYTE), "not-json"),
        (element(b"1", ts=b"9" * MEGABYTE), "not-json"),
        (element(b"[" * 100_000 + b"]" * 100_000), "not-json"),
        (element(b'{"a":' * 100_000), "not-json"),
        (element(b"[" * 400 + b"]" * 400), "not-json"),
        (element(b'{"a":1,"a":1}'), "not-json"),
        (b'{"cmd":"stats","cmd":"close"}', "not-json"),
        (b'{"cmd":"complete","call":%s,"results":[]}' % (b"9" * 4000), "unknown-call"),
        (b'{"cmd":"stats","%s":1}' % (b"x" * MEGABYTE), "bad-argument"),
    ],
    ids=range(28),
)
def test_what_cannot_be_taken_is_refused_and_changes_nothing(line: bytes, code: str) -> None:
    """Codes; afterwards the operator is as it was."""
    before, [refusal], after = answers([b'{"cmd":"stats"}', line, b'{"cmd":"stats"}'])

    assert (refusal["ev"], refusal["error"]) == ("error", code)
    assert after == before


def test_a_refusal_repeats_no_megabyte() -> None:
    [[refusal]] = answers([b'{"cmd":"advance","to":%s}' % LONG])

    assert len(refusal["message"]) < 200


def test_a_carriage_return_before_the_line_feed_does_no_harm() -> None:
    [[stats]] = answers([b'{"cmd":"stats"}\r'])

    assert stats["ev"] == "stats"


HUGE = "9" * 300


@pytest.mark.parametrize("profile", ["strict", "flink"])
def test_numbers_beyond_all_machine_words_are_whole_numbers_like_others(profile: str) -> None:
    """Config and instants: exact where they are whole, the cap where a power has left the floats (A82)."""
    retry = (
        f'{{"strategy":"exponential","max_retries":{HUGE},"initial_ms":{HUGE},"max_ms":5,'
        f'"multiplier":{HUGE},"on":["error"]}}'
    )
    opened = config(profile=f'"{profile}"', capacity=HUGE, timeout_ms=HUGE + "0", retry=retry)
    fail, advance = '{"cmd":"fail","call":%d,"error":"x"}', '{"cmd":"advance","to":%d}'
    due = int(HUGE)

    heard = answers(
        [
            element(b"1", ts=HUGE.encode()),
            (fail % 1).encode(),
            (advance % (due - 1)).encode(),
            (advance % due).encode(),
            (fail % 2).encode(),
            (advance % (due + 5)).encode(),
        ],
        opened=opened,
    )

    called = [[event["attempt"] for event in answer] for answer in heard]
    assert called == [[1], [], [], [2], [], [3]]


@each("ahead", [0, 1, CHUNK - 9, CHUNK - 8, CHUNK - 7, CHUNK - 1])
def test_lines_are_whole_wherever_the_pipe_cuts_them(tmp_path: Path, ahead: int) -> None:
    lines = [b"y" * ahead + b"\n", b'{"a":1}\n', b"\r\n", b"x" * 3 * CHUNK + b"\n", b"\n", b'{"c']

    assert _lines_of(tmp_path, b"".join(lines)) == lines


def test_of_a_line_without_end_no_more_is_kept_than_the_limit(tmp_path: Path) -> None:
    long, short = _lines_of(tmp_path, b"\nz\n", zeros_ahead=3 * LINE_MAX)

    assert short == b"z\n"
    assert LINE_MAX < len(long) < LINE_MAX + 2 * CHUNK
    with pytest.raises(CommandRefused, match="longer than"):
        object_of(long)


def _lines_of(folder: Path, data: bytes, *, zeros_ahead: int = 0) -> list[bytes]:
    """What `Lines` makes of `data`, which comes in chunks."""
    path = folder / "lines"
    with path.open("wb") as file:
        file.seek(zeros_ahead)
        file.write(data)
    with path.open("rb") as file:
        return list(iter(Lines(file.fileno(), before_wait=lambda: None).read, b""))
