"""A real run names what makes its attempts fail; a failure that nothing explains is convicted (V24)."""

from __future__ import annotations

from typing import Any

import pytest

from harness.history.event import Failed, Kill
from harness.history.notes import Line
from harness.history.verdict import Outcome
from harness.levels.live.tests.conftest import Performed
from harness.levels.live.tests.faulty_scenario import faulty
from harness.levels.live.tests.outside_kill import AT_WORK, killed_from_outside
from harness.scenario.file import apply_settings, load_many
from harness.scenario.outcome import RunOutcome
from harness.tests.whole_run import told

pytestmark = pytest.mark.real


def kinds_of(outcome: RunOutcome, invariant: str) -> set[str]:
    (verdict,) = (one for one in outcome.judgement.invariants if one.invariant == invariant)
    return {anomaly.kind for anomaly in verdict.anomalies}


def causes(lines: tuple[Line, ...], kind: type[Failed | Kill]) -> list[Any]:
    return [line.by for line in lines if isinstance(line, kind)]


def test_a_function_that_raises_by_itself_is_convicted_in_calm_trust2(performed: Performed) -> None:
    calm = apply_settings(load_many(["calm"])[0], ("workload.records=200", "expects={}"))

    outcome, _ = performed(calm, mutant="tools.defects:raises_now_and_then")

    assert outcome.error is None
    assert kinds_of(outcome, "V24") == {"unexplained-failure"}, told(outcome)
    assert outcome.judgement.outcome is Outcome.FAIL


def test_planned_deaths_and_failures_name_their_fault_trust2(performed: Performed) -> None:
    kill = {"id": "kill", "do": "kill_worker", "subtask": 1, "when": {"phase": "emit", "hit": 50}}
    exits = {**kill, "id": "exits", "how": "exit", "when": {"phase": "emit", "hit": 80}}
    raises = {**kill, "id": "raises", "how": "exception", "when": {"phase": "emit", "hit": 120}}
    poison = {"id": "bad", "do": "poison", "how": "raises", "subtask": 0, "when": {"record": 60}}
    kills = {"id": "kills", "do": "poison", "how": "kills", "subtask": 0, "when": {"record": 120}}

    outcome, lines = performed(faulty(kill, exits, raises, poison, kills, decisive=["V8", "V24"]))

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)
    assert sorted(causes(lines, Kill)) == ["exits", "kill", "kills"]
    assert sorted(causes(lines, Failed)) == ["bad", "raises"]
    assert not outcome.threats


def test_a_kill_that_nobody_planned_is_a_threat_and_judged_as_a_kill_trust2(
    performed: Performed, tmp_path: Any
) -> None:
    with killed_from_outside(tmp_path, subtask=1, after=80):
        outcome, lines = performed(faulty(workload=AT_WORK, decisive=["V8", "V24"]))

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)
    assert causes(lines, Kill) == ["outside"]
    (threat,) = outcome.threats
    assert "attempt 1 of subtask 1 was killed by SIGKILL from outside" in threat
