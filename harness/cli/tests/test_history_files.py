"""`FILE...` of `check`: files, patterns, streams; what cannot be read is told before anything is judged."""

from __future__ import annotations

import io
import os
import sys
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pytest

from harness.cli.history_files import HistoryFile, opened
from harness.system.errors import Exit, UsageError, WorldError
from tools.cases import each


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spool").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "spool"))
    for name in ("b.jsonl", "a.jsonl", "[x].jsonl", "deep/er/c.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}\n")
    return tmp_path


def names(*words: str) -> list[str]:
    with opened(words) as files:
        return [file.name for file in files]


def standard_input(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


@each(
    ("words", "expected"),
    [
        (["b.jsonl", "a.jsonl"], ["b.jsonl", "a.jsonl"]),
        (["a.jsonl", "a.jsonl"], ["a.jsonl", "a.jsonl"]),
        (["?.jsonl"], ["a.jsonl", "b.jsonl"]),
        (["**/*.jsonl"], ["[x].jsonl", "a.jsonl", "b.jsonl", "deep/er/c.jsonl"]),
        (["deep/*/*", "a*"], ["deep/er/c.jsonl", "a.jsonl"]),
        (["[x].jsonl"], ["[x].jsonl"]),
        (["[ab].jsonl"], ["a.jsonl", "b.jsonl"]),
    ],
)
def test_patterns_are_expanded_and_sorted_in_their_place(words: list[str], expected: list[str]) -> None:
    assert names(*words) == expected


def test_a_pattern_that_matches_folders_only_matches_nothing() -> None:
    with pytest.raises(UsageError, match="no file matches deep/\\*"):
        names("deep/*")


def test_everything_that_cannot_be_read_is_told_at_once() -> None:
    with pytest.raises(UsageError) as refused:
        names("gone.jsonl", "deep", "x*.arrow", "", "a.jsonl", "-", "-")

    told = str(refused.value)
    assert "there is no file gone.jsonl" in told
    assert "deep is a directory" in told
    assert "no file matches x*.arrow" in told
    assert "a file's name is empty" in told
    assert "`-` is given twice" in told
    assert "a.jsonl" not in told


def test_a_name_moves_no_cursor_and_ends_no_line(folder: Path) -> None:
    os.close(os.open(b"\x1b[2J\n\xff.jsonl", os.O_CREAT))

    with opened(["*2J*"]) as (file,):
        assert file.path.exists()
        assert file.name == "\\x1b[2J\\n\\udcff.jsonl"


@pytest.mark.parametrize(
    ("content", "suffix"),
    [
        (b'{"history":1}\n', ".jsonl"),
        (b"", ".jsonl"),
        (b"\x1f\x8b\x08\x00", ".jsonl.gz"),
        (b"\x28\xb5\x2f\xfd\x00", ".jsonl.zst"),
        (b"ARROW1\x00\x00", ".arrow"),
        (b"PAR1\x15", ".parquet"),
    ],
)
def test_standard_input_is_kept_in_a_file_named_by_its_content_while_the_block_lasts(
    content: bytes, suffix: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    standard_input(monkeypatch, content)

    with opened(["-"]) as (file,):
        kept = file.path.read_bytes()

    assert file.name == "<stdin>"
    assert file.path.name.endswith(suffix)
    assert kept == content
    assert not list((folder / "spool").iterdir())


def test_a_long_stream_is_kept_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    content = bytes(range(256)) * 10_000
    standard_input(monkeypatch, content)

    with opened(["-"]) as (file,):
        assert file.path.read_bytes() == content


def test_a_named_pipe_is_read_once_and_kept(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    writer = threading.Thread(target=(folder / "pipe").write_bytes, args=(b"{}\n",))
    writer.start()

    with opened(["pipe"]) as (file,):
        kept = (file.path.read_bytes(), file.path.read_bytes())
    writer.join()

    assert file.name == "pipe"
    assert kept == (b"{}\n", b"{}\n")


def test_a_regular_file_is_judged_where_it_is() -> None:
    with opened(["a.jsonl"]) as files:
        assert files == [HistoryFile(name="a.jsonl", path=Path("a.jsonl"))]


def test_no_room_for_standard_input_is_the_environment_s_failure(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    standard_input(monkeypatch, b"{}\n")
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "gone"))

    with pytest.raises(WorldError, match="standard input cannot be kept in .*gone") as refused, opened(["-"]):
        pass

    assert refused.value.exit_code is Exit.ENVIRONMENT
    assert "TMPDIR" in refused.value.fix


class Refusing(io.RawIOBase):
    """A stream that cannot be read: standard input may be a directory."""

    def read(self, size: int = -1, /) -> NoReturn:
        raise IsADirectoryError(21, "Is a directory")


def test_a_standard_input_that_cannot_be_read_is_bad_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=Refusing()))

    with pytest.raises(UsageError, match="standard input cannot be read: Is a directory"), opened(["-"]):
        pass


def test_a_closed_standard_input_is_bad_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)

    with pytest.raises(UsageError, match="standard input is closed"), opened(["-"]):
        pass
