"""A worker is stopped, or taken for dead and wakes again: the system says so, and nothing is written twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.faults.real.suspension import suspended
from harness.history.event import Commit
from harness.history.notes import Found
from harness.history.verdict import Outcome
from harness.levels.live.tests.conftest import Performed
from harness.levels.live.tests.faulty_scenario import faulty, what_bit
from harness.system.clock import Deadline, wait_until
from harness.system.process_identity import identify
from harness.tests.whole_run import told

pytestmark = pytest.mark.real

LIMIT_S = 60.0


def standstill(when: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"id": "pause", "do": "pause_worker", "subtask": 1, "when": when, "for": "400ms", **fields}


@pytest.mark.parametrize(
    "when", [{"at": "200ms"}, {"checkpoint": 2, "subtask": 1}, {"phase": "snap.mid", "hit": 2}], ids=str
)
def test_a_worker_that_is_stopped_is_silent_and_then_goes_on(
    performed: Performed, when: dict[str, Any]
) -> None:
    outcome, _ = performed(faulty(standstill(when), decisive=["V8", "V9"]))

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)
    fault = what_bit(outcome)
    assert fault.evidence["state"] == "T"
    assert (fault.evidence["subtask"], fault.evidence["attempt"]) == (1, 1)
    assert fault.evidence["silent_ms"] >= 400


def test_a_pause_that_repeats_leaves_evidence_each_time(performed: Performed) -> None:
    fault = {**standstill({"at": "100ms"}), "for": "100ms", "repeat": 2, "every": "250ms"}

    outcome, _ = performed(faulty(fault, decisive=["V8", "V9"]))

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)
    assert len(what_bit(outcome).times) == 2
    assert all(time.evidence for time in outcome.faults[0].times)


def zombie(when: dict[str, Any]) -> dict[str, Any]:
    return {"id": "zombie", "do": "zombie", "subtask": 1, "when": when, "for": "600ms"}


@pytest.mark.parametrize(
    "when",
    [{"checkpoint": 2, "subtask": 1}, {"phase": "snap.end", "hit": 2}, {"phase": "emit", "hit": 60}],
    ids=str,
)
def test_a_zombie_wakes_after_its_successor_wrote_and_its_commit_is_refused(
    performed: Performed, when: dict[str, Any]
) -> None:
    outcome, lines = performed(faulty(zombie(when), decisive=["V8", "V9", "V13"]))

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)
    evidence = what_bit(outcome).evidence
    assert evidence["commit"] == "refused"
    assert evidence["successor"] > evidence["attempt"]
    assert evidence["events_after_its_start"] > 0
    woken = next(line.t for line in lines if isinstance(line, Found) and line.facts["what"] == "resumed")
    written = [line.t for line in lines if isinstance(line, Commit) and line.a == evidence["successor"]]
    assert min(written) < woken
    assert outcome.accounting["doubled"] == outcome.accounting["missing"] == 0


def test_a_stopped_process_goes_on_if_whoever_stopped_it_dies(tmp_path: Path) -> None:
    """The guard: a harness that is killed cannot heal, and a process that stands for ever is not gone."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as sleeper:
        try:
            stopper = subprocess.Popen(
                [sys.executable, "-c", _STOP_AND_WAIT, str(sleeper.pid)], stdout=subprocess.PIPE, cwd=tmp_path
            )
            with stopper:
                assert stopper.stdout is not None
                assert stopper.stdout.readline() == b"stopped\n"
                assert psutil.Process(sleeper.pid).status() == psutil.STATUS_STOPPED
                stopper.kill()

            assert wait_until(
                lambda: psutil.Process(sleeper.pid).status() != psutil.STATUS_STOPPED,
                deadline=Deadline(LIMIT_S),
            )
        finally:
            sleeper.kill()


_STOP_AND_WAIT = """
import sys
from harness.faults.real.suspension import suspended
from harness.system.process_identity import identify
with suspended(identify(int(sys.argv[1])), lambda **facts: print(facts["what"], flush=True)):
    sys.stdin.readline() or __import__("signal").pause()
"""


def test_a_suspension_signals_nobody_but_the_process_that_was_meant() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        try:
            who = identify(other.pid)
            assert who is not None
            earlier = type(who)(pid=who.pid, started=who.started - 1)

            with (
                pytest.raises(Exception, match="ended before it could be stopped"),
                suspended(earlier, print),
            ):
                pytest.fail("nobody was there to be stopped")

            assert psutil.Process(other.pid).status() != psutil.STATUS_STOPPED
        finally:
            other.kill()
