"""What an attempt does to itself is measured where it happens; the honest operator bears it, the mutant does not."""

from __future__ import annotations

from typing import Any

import pytest

from harness.history.notes import Acted
from harness.history.verdict import Outcome
from harness.levels.live.tests.conftest import Performed
from harness.levels.live.tests.faulty_scenario import faulty, what_bit
from harness.tests.whole_run import told

pytestmark = pytest.mark.real


def stall(when: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"id": "stall", "do": "loop_stall", "subtask": 1, "when": when, "for": "300ms", **fields}


@pytest.mark.parametrize(
    "when",
    [
        {"at": "150ms"},
        {"between": ["50ms", "300ms"]},
        {"checkpoint": 2},
        {"record": 80},
        {"phase": "emit", "hit": 50},
    ],
    ids=str,
)
def test_a_stalled_loop_is_late_by_what_was_asked_and_nothing_is_lost(
    performed: Performed, when: dict[str, Any]
) -> None:
    outcome, _ = performed(faulty(stall(when), decisive=["V8", "V9"]))

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)
    fault = what_bit(outcome)
    assert fault.evidence["loop_lag_ms"] >= 300
    assert fault.evidence["subtask"] == 1


def test_a_stall_that_repeats_is_measured_each_time(performed: Performed) -> None:
    fault = {**stall({"at": "50ms"}), "for": "60ms", "repeat": 3, "every": "120ms"}

    outcome, _ = performed(faulty(fault))

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)
    assert what_bit(outcome).evidence["times"] == 3


def test_a_stall_is_not_repeated_by_the_attempt_that_follows(performed: Performed) -> None:
    killed = {"id": "kill", "do": "kill_worker", "subtask": 1, "when": {"phase": "snap.end", "hit": 4}}

    outcome, lines = performed(faulty(stall({"record": 20}), killed))

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)
    assert [line.a for line in lines if isinstance(line, Acted)] == [1]


def jump(**fields: Any) -> dict[str, Any]:
    return {"id": "jump", "do": "clock_jump", "subtask": 1, "when": {"record": 60}, **fields}


@pytest.mark.parametrize(
    ("fields", "changed_ms"),
    [
        ({"shift": "60m"}, 3_600_000),
        ({"shift": "-60m", "for": "200ms"}, -3_600_000),
        ({"how": "freeze", "for": "200ms"}, -200),
        ({"how": "smear", "shift": "500ms", "for": "200ms"}, 500),
    ],
    ids=str,
)
def test_a_clock_that_is_set_is_measured_and_honest_timers_do_not_care(
    performed: Performed, fields: dict[str, Any], changed_ms: int
) -> None:
    outcome, _ = performed(faulty(jump(**fields), decisive=["V8", "V15"]))

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)
    measured_ms = what_bit(outcome).evidence["offset_changed_ms"]
    assert measured_ms / changed_ms >= 0.9  # the same way, and as far; longer where the machine was late


def test_timers_by_the_wall_clock_are_convicted_when_it_is_set_forward(performed: Performed) -> None:
    """Calls of up to 400 ms are cut off by the hour that never passed."""
    scenario = faulty(
        jump(shift="60m"),
        operator={"timeout": "3s", "on_timeout": ["none"]},
        workload={"service": "400ms"},
        decisive=["V15"],
    )

    outcome, _ = performed(scenario, mutant="tools.defects:wall_clock_timers")

    (verdict,) = (v for v in outcome.judgement.invariants if str(v.invariant) == "V15")
    assert verdict.outcome is Outcome.FAIL, told(outcome)
    assert {anomaly.kind for anomaly in verdict.anomalies} == {"early-timeout"}


@pytest.mark.parametrize(
    "fault",
    [stall({"phase": "emit", "hit": 9000}), jump(shift="60m") | {"when": {"phase": "emit", "hit": 9000}}],
    ids=str,
)
def test_a_fault_whose_moment_never_comes_is_vacuous(performed: Performed, fault: dict[str, Any]) -> None:
    outcome, _ = performed(faulty(fault), draws=1)

    assert outcome.judgement.outcome is Outcome.VACUOUS, told(outcome)
    assert not outcome.faults[0].bites
