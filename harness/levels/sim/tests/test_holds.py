"""An attempt whose thread waits for its sink tells it, so that no limit needs slack for what a fault may delay."""

from __future__ import annotations

from harness.history.event import Held
from harness.history.verdict import Outcome
from harness.levels.sim.run import simulate_scenario
from harness.scenario.file import load_many
from harness.scenario.order import Order
from harness.sut.variant import HONEST, Variant
from harness.tests.simulated_run import judgement_of
from tools.defects import STRANGERS


def outcome_of_v15(name: str, *, variant: Variant = HONEST) -> tuple[int, Outcome]:
    """The longest wait (ms) that was told, and the outcome of V15."""
    [scenario] = load_many([name])
    ran = simulate_scenario(Order(scenario=scenario, level="sim", seed=1), variant=variant)
    waits = [event.t - event.since for event in ran.events if isinstance(event, Held)]
    judged = judgement_of(ran, variant=variant)
    [found] = [one.outcome for one in judged.invariants if one.invariant == "V15"]
    return max(waits, default=0) // 1000, found


def test_a_commit_that_a_fault_holds_is_told_and_excuses_the_timeouts_of_that_time() -> None:
    longest_ms, found = outcome_of_v15("paused")

    assert longest_ms > 500
    assert found is Outcome.PASS


def test_a_timeout_that_comes_a_second_late_is_convicted_beside_a_fault_that_delays_no_call() -> None:
    _, found = outcome_of_v15("blackhole-with-default", variant=STRANGERS["timeout-a-second-late"].variant)

    assert found is Outcome.FAIL
