"""A worker dies at each phase and in each way: the run shows it, goes on, and every record still counts once."""

from __future__ import annotations

from typing import Any

import pytest

from harness.history.notes import Dies
from harness.history.verdict import Outcome
from harness.levels.live.tests.conftest import Performed
from harness.levels.live.tests.faulty_scenario import faulty, what_bit
from harness.tests.whole_run import told

pytestmark = pytest.mark.real

HITS = {
    "open": 1, "restore.begin": 1, "restore.mid": 1, "restore.end": 1, "accept": 90, "call": 70, "result": 65,
    "emit": 60, "wm": 7, "snap.begin": 2, "snap.mid": 2, "snap.end": 3, "commit.pre": 2, "commit.post": 3,
    "drain": 1, "close": 1,
}  # fmt: skip
"""Every phase that an attempt with the atomic sink reaches, and at which hit it dies there."""


def kill(phase: str, hit: int = 1, *, how: str = "sigkill", name: str = "kill") -> dict[str, Any]:
    return {"id": name, "do": "kill_worker", "subtask": 1, "how": how, "when": {"phase": phase, "hit": hit}}


@pytest.mark.parametrize("phase", HITS)
def test_a_worker_that_dies_at_a_phase_is_replaced_and_no_record_is_lost(
    performed: Performed, phase: str
) -> None:
    """A restore needs a death before it: those phases are reached by the second attempt."""
    before = [kill("snap.end", 2, name="first")] if phase.startswith("restore") else []

    outcome, _ = performed(faulty(*before, kill(phase, HITS[phase]), decisive=["V8", "V9", "V13"]))

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)
    assert all(fault.bites for fault in outcome.faults), told(outcome)
    evidence = outcome.faults[-1].evidence
    assert (evidence["phase"], evidence["hit"], evidence["code"]) == (phase, HITS[phase], -9)
    assert outcome.accounting["doubled"] == outcome.accounting["missing"] == 0


@pytest.mark.parametrize(
    ("how", "code"), [("sigkill", -9), ("sigsegv", -11), ("exit", 137), ("exception", 1)]
)
@pytest.mark.parametrize("phase", ["emit", "commit.pre"])
def test_each_way_to_die_is_measured_by_who_reaps_the_process(
    performed: Performed, how: str, code: int, phase: str
) -> None:
    outcome, _ = performed(faulty(kill(phase, 3, how=how), decisive=["V8", "V9", "V13"]))

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)
    assert what_bit(outcome).evidence["code"] == code


def test_hits_of_a_phase_that_no_event_shows_are_counted_over_attempts(performed: Performed) -> None:
    """The third `snap.mid` of the subtask's life comes in the second attempt, whose first it is."""
    faults = (kill("snap.mid", 2, name="first"), kill("snap.mid", 4, name="second"))

    outcome, lines = performed(faulty(*faults, decisive=["V8", "V13"]))

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)
    deaths = [(line.fault, line.a, line.hit) for line in lines if isinstance(line, Dies)]
    assert deaths == [("first", 1, 2), ("second", 2, 4)]


def test_a_phase_that_never_comes_leaves_no_evidence_and_the_run_is_vacuous(performed: Performed) -> None:
    outcome, _ = performed(faulty(kill("emit", 100_000)), draws=1)

    assert outcome.judgement.outcome is Outcome.VACUOUS, told(outcome)
    assert not outcome.faults[0].bites
