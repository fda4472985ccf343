"""A task with keyed state, timers and two inputs on a real machine: it dies at each phase of its own and counts on."""

from __future__ import annotations

from typing import Any

import pytest

from harness.history.verdict import Outcome
from harness.levels.live.tests.conftest import Performed
from harness.levels.live.tests.faulty_scenario import faulty
from harness.scenario.model import Scenario
from harness.tests.whole_run import told

pytestmark = pytest.mark.real

TASK = {"inputs": 2, "gap": "100ms", "lag": "15ms"}


def keyed(*faults: dict[str, Any], sink: str = "atomic") -> Scenario:
    return faulty(*faults, workload={"keys": 12}, decisive=["V8", "V10"], task=TASK, sink=sink)


def kill(phase: str, hit: int, *, name: str = "kill") -> dict[str, Any]:
    return {"id": name, "do": "kill_worker", "subtask": 1, "when": {"phase": phase, "hit": hit}}


@pytest.mark.parametrize(("phase", "hit"), [("timer", 40), ("align", 3), ("snap.mid", 3), ("restore.mid", 1)])
def test_a_worker_that_dies_goes_on_with_its_state_and_its_timers(
    performed: Performed, phase: str, hit: int
) -> None:
    """What each record is stamped with tells what became of both."""
    before = [kill("snap.end", 2, name="first")] if phase.startswith("restore") else []

    outcome, _ = performed(keyed(*before, kill(phase, hit)))

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)
    assert all(fault.bites for fault in outcome.faults), told(outcome)
    assert outcome.accounting["doubled"] == outcome.accounting["missing"] == 0


@pytest.mark.parametrize("sink", ["two-phase", "idempotent"])
def test_state_is_in_the_checkpoint_that_others_complete(performed: Performed, sink: str) -> None:
    outcome, _ = performed(keyed(kill("ack", 3), sink=sink))

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)
    assert outcome.accounting["missing"] == 0


@pytest.mark.parametrize("mutant", ["snapshot-omits-keyed-state", "tools.defects:timers_one_checkpoint_old"])
def test_a_defect_of_the_snapshot_is_a_wrong_value_on_a_machine_too(
    performed: Performed, mutant: str
) -> None:
    outcome, _ = performed(keyed(kill("accept", 150)), mutant=mutant)

    failed = [
        verdict.invariant for verdict in outcome.judgement.invariants if verdict.outcome is Outcome.FAIL
    ]
    assert "V8" in failed, told(outcome)
