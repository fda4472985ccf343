"""What makes an attempt fail is in the history of a simulated run, and what nothing explains is convicted (V24)."""

from __future__ import annotations

from typing import Any

import pytest

from harness.history.event import Event, Failed, FaultEvent, Kill, Res
from harness.history.verdict import Outcome
from harness.judge.checkers.judge import judge
from harness.levels.live.tests.faulty_scenario import faulty
from harness.levels.sim.run import Simulated, simulate_scenario
from harness.scenario.file import apply_settings, load_many
from harness.scenario.model import Scenario
from harness.scenario.order import Order
from harness.sut.defects import variant_of
from harness.sut.variant import HONEST, Variant
from tools.cases import in_sweep_after
from tools.defects import IN_RUNS

_SMALL = {"records": 60, "subtasks": 1, "checkpoint_every": 20}


def simulated(scenario: Scenario, *, variant: Variant = HONEST) -> Simulated:
    return simulate_scenario(Order(scenario=scenario, level="sim", seed=3), variant=variant)


def kinds_of(run: Simulated, invariant: str) -> list[str]:
    (verdict,) = (one for one in judge(run.header, run.events).invariants if one.invariant == invariant)
    return [anomaly.kind for anomaly in verdict.anomalies]


def only(run: Simulated, kind: type[Event]) -> list[Any]:
    return [event for event in run.events if isinstance(event, kind)]


def calm() -> Scenario:
    settings = ("workload.records=120", "expects.records=240", "expects.checkpoints=1")
    return apply_settings(load_many(["calm"])[0], settings)


def test_a_function_that_raises_by_itself_is_convicted_in_calm_trust2() -> None:
    run = simulated(calm(), variant=variant_of("tools.defects:raises_now_and_then"))

    assert run.error is None, "the run ends well, so that nothing but V24 can convict it"
    assert kinds_of(run, "V24") == ["unexplained-failure", "unexplained-failure"]
    assert judge(run.header, run.events).outcome is Outcome.FAIL


def test_a_kill_and_a_failure_by_a_fault_name_it_trust2() -> None:
    kill = {"id": "kill", "do": "kill_worker", "subtask": 0, "when": {"phase": "emit", "hit": 20}}
    raises = {**kill, "id": "raises", "how": "exception", "when": {"phase": "emit", "hit": 40}}
    run = simulated(faulty(kill, raises, workload=_SMALL))

    assert [event.by for event in only(run, Kill)] == ["kill"]
    assert [event.by for event in only(run, Failed)] == ["raises"]
    assert kinds_of(run, "V24") == []


def test_a_poisoned_call_and_its_tasks_failure_name_the_fault_trust2() -> None:
    poison = {"id": "bad", "do": "poison", "how": "raises", "subtask": 0, "when": {"record": 30}}
    run = simulated(faulty(poison, workload=_SMALL))

    assert [event.by for event in only(run, Res) if event.r == "fail"] == ["bad"]
    assert [event.by for event in only(run, Failed)] == ["bad"]
    assert kinds_of(run, "V24") == []


@pytest.mark.parametrize("on_error", ["fail", "dead-letter"])
def test_a_planned_failure_is_told_as_planted_trust2(on_error: str) -> None:
    operator = {"tries": 2, "retry_delay": "5ms", "on_error": on_error}
    run = simulated(faulty(operator=operator, workload={**_SMALL, "failing_every": 25}))

    failures = [event for event in only(run, Res) if event.r == "fail"]
    assert [(event.id, event.by) for event in failures] == [(24, "planted"), (49, "planted")]
    assert kinds_of(run, "V15") == kinds_of(run, "V24") == []


def test_a_fault_tells_what_it_can_cause_and_to_whom_trust2() -> None:
    pause = {"id": "pause", "do": "pause_worker", "subtask": 0, "when": {"at": "20ms"}, "for": "50ms"}
    run = simulated(faulty(pause, workload=_SMALL))

    (begin,) = (event for event in only(run, FaultEvent) if event.phase == "begin")
    assert (begin.stalls, begin.can, begin.s) == (True, ["late"], 0)


RETRIES = {
    "backoff-stays": "retry-early",
    "backoff-without-limit": "retry-late",
    "gives-up-one-try-early": "gave-up-early",
    "one-backoff-timer": "retry-missing",
    "waits-out-backoff-at-end": "retry-late",
    "retries-empty-answers": "retried-anyway",
}


@pytest.mark.parametrize(("defect", "kind"), in_sweep_after(1, RETRIES.items()))
def test_a_defect_of_retries_is_convicted_by_its_class_trust4(defect: str, kind: str) -> None:
    name = IN_RUNS[defect].scenario
    assert name is not None

    run = simulated(load_many([name])[0], variant=IN_RUNS[defect].variant)

    assert kind in kinds_of(run, "V15")
