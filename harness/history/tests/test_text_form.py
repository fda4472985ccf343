"""The text form is read and written losslessly, plain and compressed; values are equal as the page says."""

from __future__ import annotations

import gzip
import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.history.event import GiveUp
from harness.history.files import write
from harness.history.header import Bounds, Expects, Header, OperatorHeader, header_json, parse_header
from harness.history.read import open_history, open_text, read_whole
from harness.history.strict_json import integers_of_any_length, strictly
from harness.history.text import header_line, line_of
from harness.history.values import identity, same, shown
from harness.judge.checkers.tests.legal_histories import legal_history
from harness.system.errors import HistoryError, UsageError
from tools.cases import each

LEAN = Header(operator=OperatorHeader(mode="ordered", capacity=1, timeout_ms=0))
FULL = Header(
    operator=OperatorHeader(
        mode="unordered", capacity=3, timeout_ms=5, max_tries=2, watermark_slots=False,
        coalesces_watermarks=True, per_key_order=True,
    ),
    sink="two-phase",
    effects="outputs",
    fenced=False,
    bounds=Bounds(watermark_hold=0, timeout_slack=1, recover=2, checkpoint_gap=3),
    expects=Expects(records=1, checkpoints=2, restores=0, faults=("cut",)),
    decisive=("V8", "V1"),
    run={"seed": 7},
)  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)


@pytest.mark.parametrize(
    "header", [LEAN, FULL, Header(operator=LEAN.operator, expects=Expects(), decisive=())]
)
def test_a_header_reads_as_it_was_written(header: Header) -> None:
    assert parse_header(json.loads(header_line(header))) == header


def test_a_header_leaves_out_what_is_the_default() -> None:
    assert set(header_json(LEAN)) == {"history", "operator"}


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".jsonl.zst"])
def test_a_history_reads_as_it_was_written(tmp_path: Path, suffix: str) -> None:
    lines = [json.dumps(line) for line in legal_history(11)]
    reader = open_text("\n".join(lines).encode())
    events = list(reader.events())
    assert reader.header is not None
    path = tmp_path / f"history{suffix}"

    write(path, reader.header, events)

    assert read_whole(path) == (reader.header, events)
    assert len(events) == len(lines) - 1


@settings(deadline=None, derandomize=True, database=None)
@given(VALUES)
def test_any_value_survives_to_the_last_bit(value: Any) -> None:
    event = GiveUp(n=1, t=0, why=value)

    read = list(open_text(header_line(LEAN) + line_of(event)).events())

    assert repr(read) == repr([event])
    assert same(read[0].why, value)  # type: ignore[union-attr]


def test_a_double_beyond_all_doubles_is_written_as_json() -> None:
    line = line_of(GiveUp(n=1, t=0, why=[math.inf, -math.inf, 'Infinity "Infinity'])).decode()

    assert '[1e999,-1e999,"Infinity \\"Infinity"]' in line


@each(
    ("left", "right"),
    [
        ("10.0", "1e1"),
        ("0.0", "-0.0"),
        ('{"a":1,"b":[2]}', '{"b":[2],"a":1}'),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("0", "-0"),
        ("0.1", "0.10"),
    ],
)
def test_values_are_equal(left: str, right: str) -> None:
    assert same(json.loads(left), json.loads(right))


@each(
    ("left", "right"),
    [
        ("1", "1.0"),
        ("1", "true"),
        ("0", "false"),
        ("[1]", "[1.0]"),
        ('{"a":1}', '{"a":true}'),
        ("1", '"1"'),
        ("null", "0"),
        ("[]", "{}"),
        ("[1,2]", "[2,1]"),
        ("9007199254740993", "9007199254740992"),
        ("9007199254740993", "9007199254740993.0"),
        ('"a"', '["a"]'),
    ],
)
def test_values_differ(left: str, right: str) -> None:
    assert not same(json.loads(left), json.loads(right))
    assert identity(json.loads(left)) != identity(json.loads(right))


def test_a_number_of_thousands_of_digits_is_spoken_of() -> None:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(4300)  # another test of this process may have lifted the limit
    try:
        assert "digits" in shown([10**5000])
    finally:
        sys.set_int_max_str_digits(before)


def test_a_number_of_thousands_of_digits_is_read_and_shown_where_that_is_asked_for() -> None:
    limit = sys.get_int_max_str_digits()

    with integers_of_any_length():
        told = shown([10**5000])

    assert told.startswith("[1000")
    assert len(told) <= 80
    assert strictly(b'{"id":1' + b"0" * 5000 + b"}") == {"id": 10**5000}
    assert sys.get_int_max_str_digits() == limit


def test_what_is_shown_to_a_person_is_short_and_printable() -> None:
    hostile = shown(["\x1b[31m\u202e\ud800", "x" * 500])

    assert len(hostile) <= 80
    assert hostile.isprintable()


@pytest.mark.parametrize("codec", [gzip.compress, zstandard.compress], ids=["gz", "zst"])
def test_a_cut_compressed_file_is_malformed(tmp_path: Path, codec: Any) -> None:
    suffix = ".gz" if codec is gzip.compress else ".zst"
    path = tmp_path / f"history.jsonl{suffix}"
    path.write_bytes(codec(header_line(LEAN) * 1 + b"".join(_events(3000)))[:-20])
    reader = open_history(path)

    list(reader.events())

    assert any("compressed" in breach.say for breach in reader.breaches)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_file_that_is_not_compressed_as_it_says_is_malformed(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"history.jsonl{suffix}"
    path.write_bytes(header_line(LEAN))
    reader = open_history(path)

    assert list(reader.events()) == []
    assert [breach.line for breach in reader.breaches] == [1]


def test_compressed_parts_one_after_another_are_one_history(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl.zst"
    path.write_bytes(zstandard.compress(header_line(LEAN)) + zstandard.compress(b"".join(_events(2))))

    assert len(read_whole(path)[1]) == 2


def test_a_malformed_history_raises_with_every_line(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(header_line(LEAN) + b"{}\n[]\n")

    with pytest.raises(HistoryError, match=r"(?s)line 2.*line 3"):
        read_whole(path)


def test_a_file_that_cannot_be_read_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        open_history(tmp_path)


def _events(count: int) -> list[bytes]:
    return [line_of(GiveUp(n=n, t=n, why=f"{n * 7919}")) for n in range(count)]
