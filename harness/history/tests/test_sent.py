"""Events that are sent are in the run's folder when the attempt goes on, and whoever has no right to writes nothing."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from harness.history.event import Dead
from harness.history.notes import CommitBegun, Dies, Line
from harness.history.recorder import attempt_file, decode_lines
from harness.history.sent import Collector, SentRecorder, SentTo
from harness.history.tests.lines import line

NAME = attempt_file(Path(), subtask=1, attempt=2).name


@pytest.fixture
def collected(tmp_path: Path) -> Path:
    folder = tmp_path / "raw"
    folder.mkdir()
    return folder


@pytest.fixture
def collector(collected: Path) -> Iterator[Collector]:
    with Collector(collected, host="127.0.0.1", secret="s3cret") as running:
        yield running


def test_an_announced_commit_and_all_before_it_are_in_the_runs_folder(
    collector: Collector, collected: Path, tmp_path: Path
) -> None:
    with SentRecorder(tmp_path / "host" / NAME, to=collector.to) as recorder:
        recorder.event(Dead, s=1, a=2, id=7)
        recorder.write(CommitBegun(c=1))

        assert [type(one) for one in decode_lines((collected / NAME).read_bytes())] == [Dead, CommitBegun]


def test_the_copy_on_the_host_and_what_was_sent_are_equal(
    collector: Collector, collected: Path, tmp_path: Path
) -> None:
    with SentRecorder(tmp_path / "host" / NAME, to=collector.to) as recorder:
        for number in range(50):
            recorder.event(Dead, s=1, a=2, id=number)

    assert (collected / NAME).read_bytes() == recorder.path.read_bytes()


def test_a_mark_comes_before_its_line(collector: Collector, collected: Path, tmp_path: Path) -> None:
    seen: list[tuple[type[Line], int]] = []

    def mark(marked: Line) -> None:
        seen.append((type(marked), len((collected / NAME).read_bytes())))

    with SentRecorder(tmp_path / "host" / NAME, to=collector.to, mark=mark) as recorder:
        recorder.write(line(Dies, fault="f", phase="emit", hit=1, how="exit"))

    assert seen == [(Dies, 0)]


@pytest.mark.parametrize(
    ("secret", "file"), [("wrong", NAME), ("s3cret", "../harness.jsonl"), ("s3cret", "harness.jsonl")]
)
def test_a_stranger_and_a_strange_name_write_nothing(
    collector: Collector, collected: Path, secret: str, file: str
) -> None:
    with socket.create_connection((collector.to.host, collector.to.port), timeout=60) as stranger:
        stranger.sendall(msgspec.json.encode({"secret": secret, "file": file}) + b'\n{"i":0}\n?\n')

        assert stranger.recv(1) == b""
    assert not list(collected.parent.rglob("*.jsonl"))


def test_a_second_attempt_of_the_same_number_is_refused(collector: Collector, tmp_path: Path) -> None:
    with (
        SentRecorder(tmp_path / "one" / NAME, to=collector.to),
        pytest.raises(OSError, match="does not take the events|reset"),
    ):
        SentRecorder(tmp_path / "two" / NAME, to=collector.to)


def test_an_attempt_whose_harness_is_gone_does_not_go_on(collected: Path, tmp_path: Path) -> None:
    with Collector(collected, host="127.0.0.1", secret="s3cret") as running:
        to = SentTo(host=running.to.host, port=running.to.port, secret="s3cret")
    with pytest.raises(OSError):  # noqa: PT011 - refused or reset, as the system likes
        SentRecorder(tmp_path / "host" / NAME, to=to)
