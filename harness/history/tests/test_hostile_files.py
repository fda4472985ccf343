"""Whatever a file holds, it is judged or refused, both readers say the same, and it never passes for what it is not."""

from __future__ import annotations

import gzip
import json
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import zstandard

from harness.history.read import NeedsExactReader, open_history
from harness.history.text import chunks
from harness.history.verdict import Outcome
from harness.judge.checkers.judge import Malformed, judge_file
from harness.system.errors import UsageError
from tools.cases import each

HEADER: dict[str, Any] = {"history": 1, "operator": {"mode": "ordered", "capacity": 2, "timeout_ms": 0}}
OF = {"s": 0, "a": 1}
HALF = chr(0xD800)


def life(id_: Any, expected: list[Any], given: list[Any]) -> list[dict[str, Any]]:
    """One record from its source to its outputs, on its own."""
    told: list[dict[str, Any]] = [
        {"k": "start", **OF, "from": None, "pos": 0},
        {"k": "in", **OF, "pos": 0, "id": id_, "expect": expected},
        {"k": "call", **OF, "id": id_, "try": 1},
        {"k": "res", **OF, "id": id_, "try": 1, "r": "ok", "final": True, "v": given},
        *({"k": "out", **OF, "id": id_, "j": j, "v": value} for j, value in enumerate(given)),
        {"k": "end", **OF},
        {"k": "ended", **OF},
    ]
    return [{"n": n, "t": n, **event} for n, event in enumerate(told, start=1)]


def file(path: Path, *lines: Any) -> Path:
    path.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in (HEADER, *lines)))
    return path


def fast_line(path: Path) -> int | None:
    """The line at which the fast reader gives up."""
    try:
        for _ in open_history(path).batches():
            pass
    except NeedsExactReader as odd:
        return odd.line
    return None


def outcomes(path: Path) -> dict[str, Outcome]:
    judged = judge_file(path)
    assert not isinstance(judged, Malformed), judged.breaches
    return {found.invariant: found.outcome for found in judged.invariants}


def breaches(path: Path) -> list[str]:
    """What is told, both readers agreeing on the first line."""
    judged = judge_file(path)
    assert isinstance(judged, Malformed)
    assert fast_line(path) == judged.breaches[0].line
    return [breach.say for breach in judged.breaches]


def test_an_id_of_megabytes_is_judged(tmp_path: Path) -> None:
    id_ = "x" * 1_000_000
    good = life(id_, ["a"], ["a"])

    assert outcomes(file(tmp_path / "h.jsonl", *good))["V8"] is Outcome.PASS
    good[4]["id"] = id_ + "y"
    assert outcomes(file(tmp_path / "h.jsonl", *good))["V8"] is Outcome.FAIL
    assert fast_line(tmp_path / "h.jsonl") is None


def test_a_list_of_very_many_results_is_judged(tmp_path: Path) -> None:
    many = list(range(60_000))
    events = life(1, many, [0])
    events[3]["v"] = many

    assert outcomes(file(tmp_path / "h.jsonl", *events))["V8"] is Outcome.FAIL
    assert fast_line(tmp_path / "h.jsonl") is None


@pytest.mark.parametrize("digits", [5_000, 100_001, 3_000_000])
def test_an_integer_is_judged_or_refused_before_it_takes_hours(tmp_path: Path, digits: int) -> None:
    """What takes time is refused by its length; the judge holds Python's own limit lifted."""
    path = file(tmp_path / "h.jsonl", *life(1, ["a"], ["a"]))
    path.write_bytes(path.read_bytes().replace(b'"id": 1,', b'"id": ' + b"7" * digits + b","))

    if digits == 5_000:
        assert outcomes(path)["V8"] is Outcome.PASS
        assert fast_line(path) is None
    else:
        assert breaches(path)[0] == "an integer of more than 100000 digits is not read"


@pytest.mark.parametrize("given", [HALF, chr(0xDC00), "?"])
def test_half_characters_are_judged_as_what_they_are(tmp_path: Path, given: str) -> None:
    path = file(tmp_path / "h.jsonl", *life(HALF, [HALF], [given]))

    assert outcomes(path)["V8"] is (Outcome.PASS if given == HALF else Outcome.FAIL)
    assert fast_line(path) is None


def test_a_value_that_is_not_a_number_is_refused(tmp_path: Path) -> None:
    assert (
        breaches(file(tmp_path / "h.jsonl", *life(1, [1], [float("nan")])))
        == ["NaN is not JSON; write null or a string"] * 2
    )


def test_a_history_of_another_version_is_told_which_one_is_read(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    path.write_text(
        json.dumps({"history": 2, "machine": {}}) + "\n" + json.dumps({"n": 1, "what": "ever"}) + "\n"
    )

    assert breaches(path)[0] == "the history is of version 2; only version 1 can be read"


@each("name", ["h.jsonl", "h.jsonl.gz", "h.jsonl.zst", "h.arrow", "h.parquet", "h"])
@each("data", [b"", b"\x00", b"\n", bytes(range(256)) * 40, b"\x1f\x8b" + b"\x00" * 40, b"PAR1"])
def test_an_empty_file_and_garbage_are_refused_on_their_first_line(
    tmp_path: Path, name: str, data: bytes
) -> None:
    path = tmp_path / name
    path.write_bytes(data)

    assert breaches(path)
    assert fast_line(path) == 1


@pytest.mark.parametrize("name", ["h.jsonl", "h.jsonl.gz", "h.jsonl.zst", "h.arrow", "h.parquet"])
def test_a_folder_and_what_is_not_there_are_usage_errors(tmp_path: Path, name: str) -> None:
    for path in (tmp_path, tmp_path / name):
        with pytest.raises(UsageError, match="cannot read"):
            judge_file(path)
        with pytest.raises(UsageError, match="cannot read"):
            open_history(path)
        (tmp_path / name).mkdir(exist_ok=True)
        with pytest.raises(UsageError, match="cannot read"):
            judge_file(tmp_path / name)


@pytest.mark.parametrize(("codec", "end"), [(gzip.compress, ".gz"), (zstandard.compress, ".zst")])
def test_a_packed_file_that_is_cut_is_refused_however_little_is_missing(
    tmp_path: Path, codec: Any, end: str
) -> None:
    whole = file(tmp_path / "h.jsonl", *life(1, ["a"], ["a"])).read_bytes()
    packed = codec(whole)
    path = tmp_path / f"h.jsonl{end}"
    for kept in range(1, len(packed), 7):
        path.write_bytes(packed[:kept])
        assert breaches(path), kept
    path.write_bytes(packed)
    assert outcomes(path)["V8"] is Outcome.PASS


@pytest.mark.parametrize(("codec", "end"), [(gzip.compress, ".gz"), (zstandard.compress, ".zst")])
def test_a_few_bytes_that_stand_for_very_many_are_read_in_pieces(
    tmp_path: Path, codec: Any, end: str
) -> None:
    """Blanks compress a thousandfold; no chunk that comes out is large."""
    path = tmp_path / f"h.jsonl{end}"
    path.write_bytes(codec(b"{}\n" + b" " * 30_000_000))

    assert max(map(len, chunks(path))) < 20_000_000
    assert sum(map(len, chunks(path))) == 30_000_003


def test_a_cut_last_line_is_a_warning_for_both_readers(tmp_path: Path) -> None:
    path = file(tmp_path / "h.jsonl", *life(1, ["a"], ["a"]))
    path.write_bytes(path.read_bytes() + b'{"n":9,"t":9,"k":"en')
    judged = judge_file(path)
    fast = open_history(path)

    assert len(list(chain.from_iterable(fast.batches()))) == 7
    assert not isinstance(judged, Malformed)
    assert judged.warnings == tuple(fast.warnings)
    assert len(fast.warnings) == 1
