"""An attempt whose thread waits for its sink tells it, so that no limit needs slack for what a fault may delay."""

from __future__ import annotations

from collections.abc import Mapping

from harness.history.event import Held
from harness.history.verdict import InvariantVerdict, Outcome
from harness.levels.sim.run import simulate_scenario
from harness.scenario.file import load_many
from harness.scenario.model import Scenario
from harness.scenario.order import Order
from harness.sut.variant import HONEST, Variant
from harness.tests.simulated_run import judgement_of
from tools.cases import each
from tools.defects import IN_RUNS, STRANGERS


def verdict_of_v15(scenario: Scenario, *, variant: Variant = HONEST) -> tuple[int, InvariantVerdict]:
    """The longest wait (ms) that was told, and the verdict of V15."""
    ran = simulate_scenario(Order(scenario=scenario, level="sim", seed=1), variant=variant)
    waits = [event.t - event.since for event in ran.events if isinstance(event, Held)]
    judged = judgement_of(ran, variant=variant)
    [found] = [one for one in judged.invariants if one.invariant == "V15"]
    return max(waits, default=0) // 1000, found


def outcome_of_v15(name: str, *, variant: Variant = HONEST) -> tuple[int, Outcome]:
    [scenario] = load_many([name])
    longest_ms, found = verdict_of_v15(scenario, variant=variant)
    return longest_ms, found.outcome


def behind_timeout(operator: Mapping[str, object], sink_delay: str) -> Scenario:
    """`backoff-ends-behind-timeout`, short, with such an operator and a slow link to its sink."""
    [shipped] = load_many(["backoff-ends-behind-timeout"])
    plain = shipped.model_dump(mode="json", by_alias=True)
    slow = {
        "id": "slow",
        "do": "one_way",
        "link": "sink",
        "direction": "down",
        "delay": sink_delay,
        "for": "60s",
    }
    plain["operator"] |= operator
    plain["workload"] |= {"records": 100, "subtasks": 1, "checkpoint_every": 5}
    return Scenario.model_validate({**plain, "expects": {}, "faults": [{**slow, "when": {"at": "0ms"}}]})


def test_a_commit_that_a_fault_holds_is_told_and_excuses_the_timeouts_of_that_time() -> None:
    longest_ms, found = outcome_of_v15("paused")

    assert longest_ms > 500
    assert found is Outcome.PASS


def test_a_timeout_that_comes_a_second_late_is_convicted_beside_a_fault_that_delays_no_call() -> None:
    _, found = outcome_of_v15("blackhole-with-default", variant=STRANGERS["timeout-a-second-late"].variant)

    assert found is Outcome.FAIL


def test_a_call_behind_its_timeout_is_convicted_though_its_outcome_is_late_by_less_than_the_slack() -> None:
    [scenario] = load_many(["backoff-ends-behind-timeout"])

    _, found = verdict_of_v15(scenario, variant=IN_RUNS["timeout-behind-backoff"].variant)

    assert {anomaly.kind for anomaly in found.anomalies} == {"call-after-timeout"}


@each("sink_delay", ["1ms", "2ms"])
def test_a_retry_that_waits_with_its_timeout_for_the_sink_is_right_and_that_short_wait_is_told(
    sink_delay: str,
) -> None:
    unordered = {"mode": "unordered", "capacity": 200, "timeout": "255ms", "retry_delay": "252ms"}

    longest_ms, found = verdict_of_v15(behind_timeout(unordered, sink_delay))

    assert 0 < longest_ms < 25
    assert found.outcome is Outcome.PASS
