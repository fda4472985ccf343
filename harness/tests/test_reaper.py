"""The reaper: an attempt is dead only if it did not end by its own word and its process is gone, by pid and birth."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.history.follower import AttemptView, Progress
from harness.history.recorder import Recorder
from harness.reaper import AttemptReaper


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    with Recorder(tmp_path / "harness.jsonl") as made:
        yield made


@pytest.fixture
def gone() -> tuple[int, float]:
    """Pid and birth of a process that has ended and was reaped."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    born = psutil.Process(process.pid).create_time()
    process.communicate(b"\n", timeout=10)
    return process.pid, born


def seen(pid: int | None, born: float | None, *, over: bool = False) -> Progress:
    view = AttemptView(subtask=1, attempt=3, pid=pid, born=born, over=over)
    return Progress(attempts={(1, 3): view})


def kills(recorder: Recorder) -> list[Any]:
    lines = [json.loads(line) for line in recorder.path.read_text().splitlines()]
    return [(line["k"], line["s"], line["a"]) for line in lines]


def test_an_attempt_whose_process_is_gone_is_recorded_as_dead_once(
    recorder: Recorder, gone: tuple[int, float]
) -> None:
    reaper, progress = AttemptReaper(recorder), seen(*gone)

    assert [view.attempt for view in reaper.look(progress)] == [3]
    assert reaper.look(progress) == []
    assert kills(recorder) == [("kill", 1, 3)]


def test_an_attempt_that_said_that_it_is_over_is_not_dead(
    recorder: Recorder, gone: tuple[int, float]
) -> None:
    assert AttemptReaper(recorder).look(seen(*gone, over=True)) == []


def test_a_living_attempt_is_not_dead(recorder: Recorder) -> None:
    me = psutil.Process()

    assert AttemptReaper(recorder).look(seen(me.pid, me.create_time())) == []


def test_a_process_of_the_same_pid_that_was_born_later_is_another(recorder: Recorder) -> None:
    me = psutil.Process()

    assert AttemptReaper(recorder).look(seen(me.pid, me.create_time() - 100))


def test_an_attempt_that_has_not_told_its_process_yet_is_not_dead(recorder: Recorder) -> None:
    assert AttemptReaper(recorder).look(seen(None, None)) == []


def test_a_zombie_is_not_gone_yet(recorder: Recorder) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    born = psutil.Process(process.pid).create_time()
    process.kill()

    assert AttemptReaper(recorder).look(seen(process.pid, born)) == []

    process.communicate(timeout=10)
    assert AttemptReaper(recorder).look(seen(process.pid, born))
