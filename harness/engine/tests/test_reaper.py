"""The reaper: an attempt is dead only if it did not end by its own word and its process is gone, by pid and start."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.engine.watch import AttemptReaper, threats_of
from harness.history.follower import AttemptView, Progress
from harness.history.recorder import Recorder, decode_lines
from harness.system.process_identity import ProcessIdentity, identify, this_process


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    with Recorder(tmp_path / "harness.jsonl") as made:
        yield made


@pytest.fixture
def gone() -> ProcessIdentity:
    """A process that has ended and was reaped."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    who = identify(process.pid)
    assert who is not None
    process.communicate(b"\n", timeout=60)
    return who


def seen(process: ProcessIdentity | None, *, over: bool = False) -> Progress:
    view = AttemptView(subtask=1, attempt=3, process=process, over=over)
    return Progress(attempts={(1, 3): view})


def looked(reaper: AttemptReaper, progress: Progress, newest: Progress) -> list[AttemptView]:
    """What two looks find: without an exit code the first one leaves it to the second."""
    return [view for _ in range(2) for view in reaper.look(progress, again=lambda: newest)]


def test_an_attempt_is_recorded_at_the_next_look_if_the_level_may_not_have_heard_of_its_end(
    recorder: Recorder, gone: ProcessIdentity
) -> None:
    """Found under load: a signal from outside was taken for a mistake of the operator's."""
    reaper, progress = AttemptReaper(recorder), seen(gone)

    assert reaper.look(progress, again=lambda: progress) == []
    reaper.codes[gone.pid] = -9
    assert [view.attempt for view in reaper.look(progress, again=lambda: progress)] == [3]

    assert [(kind, by) for kind, by, _ in caused(recorder)] == [("~outside", None), ("kill", "outside")]


def kills(recorder: Recorder) -> list[Any]:
    lines = [json.loads(line) for line in recorder.path.read_text().splitlines()]
    return [(line["k"], line["s"], line["a"]) for line in lines]


def test_an_attempt_whose_process_is_gone_is_recorded_as_dead_once(
    recorder: Recorder, gone: ProcessIdentity
) -> None:
    reaper, progress = AttemptReaper(recorder), seen(gone)

    assert [view.attempt for view in looked(reaper, progress, progress)] == [3]
    assert reaper.look(progress, again=lambda: progress) == []
    assert kills(recorder) == [("kill", 1, 3)]


def test_an_attempt_that_said_that_it_is_over_is_not_dead(recorder: Recorder, gone: ProcessIdentity) -> None:
    assert looked(AttemptReaper(recorder), seen(gone, over=True), seen(gone, over=True)) == []


def test_a_living_attempt_is_not_dead(recorder: Recorder) -> None:
    assert looked(AttemptReaper(recorder), seen(this_process()), seen(this_process())) == []


def test_a_process_of_the_same_pid_that_was_born_later_is_another(recorder: Recorder) -> None:
    earlier = replace(this_process(), started=this_process().started - 100)

    assert looked(AttemptReaper(recorder), seen(earlier), seen(earlier))


def test_an_attempt_that_has_not_told_its_process_yet_is_not_dead(recorder: Recorder) -> None:
    assert looked(AttemptReaper(recorder), seen(None), seen(None)) == []


def test_a_zombie_is_not_gone_yet(recorder: Recorder) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    who = identify(process.pid)
    process.kill()

    assert looked(AttemptReaper(recorder), seen(who), seen(who)) == []

    process.communicate(timeout=60)
    assert looked(AttemptReaper(recorder), seen(who), seen(who))


def caused(recorder: Recorder) -> list[Any]:
    lines = [json.loads(line) for line in recorder.path.read_text().splitlines()]
    return [(line["k"], line.get("by"), line.get("signal")) for line in lines]


def test_a_kill_names_the_fault_for_which_the_attempt_was_about_to_die_trust2(
    recorder: Recorder, gone: ProcessIdentity
) -> None:
    reaper, progress = AttemptReaper(recorder), seen(gone)
    progress.attempts[1, 3].dies_for = "kill"
    reaper.codes[gone.pid] = -9

    reaper.look(progress, again=lambda: progress)

    assert caused(recorder) == [("kill", "kill", None)]


def test_a_process_that_tells_whom_it_dies_for_just_before_it_is_gone_is_heard_trust2(
    recorder: Recorder, gone: ProcessIdentity
) -> None:
    newer = seen(gone)
    newer.attempts[1, 3].dies_for = "kill"

    looked(AttemptReaper(recorder), seen(gone), newer)

    assert caused(recorder) == [("kill", "kill", None)]


def test_an_attempt_that_is_over_just_before_it_is_gone_is_not_dead(
    recorder: Recorder, gone: ProcessIdentity
) -> None:
    assert looked(AttemptReaper(recorder), seen(gone), seen(gone, over=True)) == []


def test_a_kill_at_the_end_of_the_run_is_the_harnesss_own_trust2(
    recorder: Recorder, gone: ProcessIdentity
) -> None:
    reaper = AttemptReaper(recorder)
    reaper.codes[gone.pid] = -9
    reaper.stopped.add(gone.pid)

    reaper.look(seen(gone), again=lambda: seen(gone))

    assert caused(recorder) == [("kill", "outside", None)]


@pytest.mark.parametrize("code", [-9, -15])
def test_a_signal_that_nobody_planned_comes_from_outside_and_is_a_threat_trust2(
    recorder: Recorder, gone: ProcessIdentity, code: int
) -> None:
    reaper = AttemptReaper(recorder)
    reaper.codes[gone.pid] = code

    reaper.look(seen(gone), again=lambda: seen(gone))

    assert [(kind, by) for kind, by, _ in caused(recorder)] == [("~outside", None), ("kill", "outside")]
    (threat,) = threats_of(decode_lines(recorder.path.read_bytes()))
    assert "attempt 3 of subtask 1 was killed by SIG" in threat


@pytest.mark.parametrize("code", [0, 1, 137, -11, -6])
def test_a_process_that_ends_by_itself_or_by_its_own_mistake_has_no_cause_trust2(
    recorder: Recorder, gone: ProcessIdentity, code: int
) -> None:
    reaper = AttemptReaper(recorder)
    reaper.codes[gone.pid] = code

    reaper.look(seen(gone), again=lambda: seen(gone))

    assert caused(recorder) == [("kill", None, None)]


def test_a_process_whose_end_nobody_saw_has_no_cause_trust2(
    recorder: Recorder, gone: ProcessIdentity
) -> None:
    looked(AttemptReaper(recorder), seen(gone), seen(gone))

    assert caused(recorder) == [("kill", None, None)]
