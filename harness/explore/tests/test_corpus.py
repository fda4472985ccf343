"""The corpus: what is written is read again; what is older or rubbish is named and left; a full disk is told."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from harness.explore.drawing import draw_scenario
from harness.explore.exploration import CORPUS_VERSION, Corpus, CorpusEntry
from harness.system.errors import UsageError, WorldError
from tools.cases import each

ENTRY = CorpusEntry(scenario=draw_scenario(5), seed=77)


def _read(corpus: Corpus) -> tuple[list[CorpusEntry], list[str]]:
    notes: list[str] = []
    return list(corpus.read(notes.append)), notes


def test_a_kept_entry_is_read_with_its_seed(tmp_path: Path) -> None:
    corpus = Corpus(folder=tmp_path / "deep" / "corpus")

    file = corpus.keep(ENTRY, reached=9)

    (read,), notes = _read(corpus)
    assert (read.seed, read.digest, notes) == (77, ENTRY.digest, [])
    assert read.scenario.faults == ENTRY.scenario.faults
    assert f"floodmark run {file} --level sim --seed 77" in file.read_text("utf-8")


@each(
    ("text", "why"),
    [
        (b"\xff\xfe\x00", "no text in UTF-8"),
        (b"hello\n", "its first line is not"),
        (b"# floodmark corpus 0, seed 4\nscenario: x\n", "it is of version 0 of the corpus"),
        (f"# floodmark corpus {CORPUS_VERSION}, seed {'9' * 5_000}\n".encode(), "its first line is not"),
        (
            f"# floodmark corpus {CORPUS_VERSION}, seed 4\nscenario: 7\n".encode(),
            "line 2: the scenario lacks `about`",
        ),
        (f"# floodmark corpus {CORPUS_VERSION}, seed 4\n{{".encode(), "this is not YAML"),
    ],
)
def test_what_is_no_entry_is_named_in_one_line_and_left(tmp_path: Path, text: bytes, why: str) -> None:
    corpus = Corpus(folder=tmp_path)
    corpus.keep(ENTRY, reached=1)
    bad = tmp_path / "bad.yaml"
    bad.write_bytes(text)

    read, notes = _read(corpus)

    assert len(read) == 1
    (note,) = notes
    assert str(bad) in note
    assert why in note
    assert "\n" not in note
    assert bad.read_bytes() == text


def test_a_pipe_in_a_corpus_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")

    read, notes = _read(Corpus(folder=tmp_path))

    assert read == []
    assert notes == [f"corpus: {tmp_path / 'pipe.yaml'} is skipped: it is no file"]


def test_a_corpus_that_is_a_file_is_a_mistake_of_the_caller(tmp_path: Path) -> None:
    file = tmp_path / "corpus"
    file.write_text("", "utf-8")

    with pytest.raises(UsageError, match="is no folder"):
        _read(Corpus(folder=file))


def test_a_full_disk_leaves_no_half_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(WorldError, match="No space left on device"):
        Corpus(folder=tmp_path).keep(ENTRY, reached=1)
    assert list(tmp_path.iterdir()) == []
