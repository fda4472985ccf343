"""The recorder that loses events leaves a gap in each of its two forms, which is how its run is found out."""

from __future__ import annotations

from pathlib import Path

from harness.database.simulated.hub import Hub
from harness.database.simulated.tape import MemoryRecorder, Tape
from harness.history.journal import EventLog, Journal
from harness.history.merge import read_leftovers
from harness.history.recorder import Recorder
from harness.sut.defects.harness import dropping
from harness.system.choices import Draw

CALLS = 3000


def call_often(log: EventLog) -> None:
    journal = Journal(log, subtask=0, attempt=1)
    for number in range(CALLS):
        journal.called(id=number, attempt=1)


def test_what_is_lost_is_missing_from_the_attempts_file(tmp_path: Path) -> None:
    with dropping(Recorder)(tmp_path / "attempt.jsonl") as recorder:
        call_often(recorder)

    leftovers = read_leftovers(tmp_path)
    assert 0 < leftovers.missing < CALLS / 100
    assert len(leftovers.lines) + leftovers.missing == CALLS


def test_what_is_lost_is_missing_from_the_tape() -> None:
    tape = Tape(Hub(Draw(1, "test"), limit_ms=1, steps_max=1))

    call_often(dropping(MemoryRecorder)(tape))

    assert 0 < tape.numbered - len(tape.events) < CALLS / 100
    assert tape.numbered == CALLS
