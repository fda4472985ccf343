"""Crashes: a kill comes at its phase and hit, counted over the subtask's whole life, and once in it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from harness.history.journal import Journal
from harness.history.merge import read_leftovers
from harness.history.recorder import Recorder, attempt_file
from harness.plan import Crash
from harness.sut.crash import Crashes


class Died(BaseException):
    """In place of the SIGKILL, which ends a process, too, whatever it catches."""


@pytest.fixture(autouse=True)
def survivable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here a SIGKILL to this process is an exception."""

    def kill(pid: int, number: int) -> None:
        assert (pid, number) == (os.getpid(), signal.SIGKILL)
        raise Died

    monkeypatch.setattr("harness.sut.crash.os.kill", kill)


class Life:
    """Subtask 1's attempts, one after the other, in one folder."""

    def __init__(self, folder: Path, *planned: Crash) -> None:
        self._folder = folder
        self._planned = planned
        self._attempts = 0

    def attempt(self, *phases: str) -> int:
        """Go through `phases` as an attempt does; how many were survived."""
        self._attempts += 1
        path = attempt_file(self._folder, subtask=1, attempt=self._attempts)
        with Recorder(path) as recorder:
            journal = Journal(recorder, subtask=1, attempt=self._attempts)
            crashes = Crashes(
                self._planned, subtask=1, attempt=self._attempts, folder=self._folder, journal=journal
            )
            for survived, phase in enumerate(phases):
                try:
                    _go_through(phase, journal, crashes)
                except Died:
                    return survived
        return len(phases)


def _go_through(phase: str, journal: Journal, crashes: Crashes) -> None:
    """With the line before or after, as `Coordination` and `JournalProbe` have it."""
    match phase:
        case "snapshot-taken":
            journal.snapped(checkpoint=1, position=1, elements=[])
            crashes.reach(phase)
        case "committed":
            crashes.reach(phase)
            journal.committed(1)
        case "call":
            journal.called(id=1, attempt=1)
            crashes.reach(phase)


def crash(phase: str, hit: int, *, fault: str = "kill", subtask: int = 1) -> Crash:
    return Crash(fault=fault, subtask=subtask, phase=phase, hit=hit)


PHASES = pytest.mark.parametrize("phase", ["snapshot-taken", "committed", "call"])


@PHASES
def test_a_kill_comes_at_its_hit(tmp_path: Path, phase: str) -> None:
    assert Life(tmp_path, crash(phase, 3)).attempt(*[phase] * 9) == 2


@PHASES
def test_a_kill_comes_once_in_a_subtasks_life(tmp_path: Path, phase: str) -> None:
    life = Life(tmp_path, crash(phase, 3))

    assert [life.attempt(*[phase] * 9) for _ in range(3)] == [2, 9, 9]


@PHASES
def test_hits_are_counted_over_earlier_attempts(tmp_path: Path, phase: str) -> None:
    life = Life(tmp_path, crash(phase, 2, fault="one"), crash(phase, 5, fault="two"))

    assert [life.attempt(*[phase] * 9) for _ in range(3)] == [1, 2, 9]


@PHASES
def test_an_attempt_that_ended_otherwise_counts_too(tmp_path: Path, phase: str) -> None:
    life = Life(tmp_path, crash(phase, 4))

    assert [life.attempt(phase, phase), life.attempt(*[phase] * 9)] == [2, 1]


def test_other_phases_and_other_subtasks_are_not_counted(tmp_path: Path) -> None:
    life = Life(tmp_path, crash("snapshot-taken", 2), crash("call", 1, fault="other", subtask=0))

    assert life.attempt("call", "call", "snapshot-taken", "committed", "snapshot-taken") == 4


def test_an_attempt_that_left_no_file_or_a_torn_line_is_no_obstacle(tmp_path: Path) -> None:
    """Attempt 1 died before it wrote; attempt 2 while it wrote."""
    torn = b'{"i":0,"t":1,"k":"snap","s":1,"a":2,"c":1}\n{"i":1,"t":2,"k":"sna'
    attempt_file(tmp_path, subtask=1, attempt=2).write_bytes(torn)
    with Recorder(attempt_file(tmp_path, subtask=1, attempt=3)) as recorder:
        journal = Journal(recorder, subtask=1, attempt=3)
        crashes = Crashes(
            [crash("snapshot-taken", 2)], subtask=1, attempt=3, folder=tmp_path, journal=journal
        )

        with pytest.raises(Died):
            crashes.reach("snapshot-taken")


def test_the_kill_is_written_down_before_it_happens(tmp_path: Path) -> None:
    Life(tmp_path, crash("committed", 2)).attempt("committed", "committed")

    (note,) = (line for line in read_leftovers(tmp_path).lines if line["k"] == "~dies")
    assert (note["fault"], note["phase"], note["hit"], note["s"], note["a"]) == ("kill", "committed", 2, 1, 1)
