"""`floodmark check --on` reads a history in one stream where it lies; the executors themselves are tested elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.judging import _in_parquet
from harness.judge.checkers.judge import judge_file
from tools.bench.regular_history import regular_header, regular_history, write_lines

pytest.importorskip("pyarrow")


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    path = tmp_path / "history.jsonl"
    write_lines(path, regular_header("ordered"), regular_history("ordered", 300))
    return path


def test_a_stream_lies_beside_itself_as_parquet_while_it_is_checked(stream: Path) -> None:
    with _in_parquet(stream) as parts:
        assert parts is not None
        assert parts.parent.parent == stream.parent
        judged = judge_file(parts)

    assert judged == judge_file(stream)
    assert list(stream.parent.iterdir()) == [stream]


@pytest.mark.parametrize("tail", ['{"k":"in","n":', '{"k":"nothing","n":999,"t":99}\n'])
def test_a_stream_that_is_cut_off_or_malformed_is_left_to_this_machine(stream: Path, tail: str) -> None:
    with stream.open("a") as file:
        file.write(tail)

    with _in_parquet(stream) as parts:
        assert parts is None

    assert list(stream.parent.iterdir()) == [stream]


def test_parquet_is_checked_as_it_is(tmp_path: Path) -> None:
    with _in_parquet(tmp_path) as parts:
        assert parts == tmp_path
