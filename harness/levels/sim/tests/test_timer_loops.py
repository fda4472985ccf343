"""A timer that is due again and again at one instant of virtual time ends its run, and is named."""

from __future__ import annotations

import asyncio

import pytest

from harness.history.event import GiveUp
from harness.history.verdict import Outcome
from harness.levels.sim.run import simulate_scenario
from harness.scenario.file import load_many
from harness.scenario.order import Order
from harness.sut.variant import Variant
from harness.tests.simulated_run import judgement_of
from reference_impl.mailbox.loops import VirtualLoop
from tools.defects import STRANGERS


@pytest.mark.parametrize(
    ("name", "timer"), [("clock-behind-its-alarm", "Availability.end"), ("timers-without-end", "again")]
)
def test_a_timer_that_loops_at_one_instant_is_stuck_and_named(name: str, timer: str) -> None:
    variant: Variant = STRANGERS[name].variant
    [scenario] = load_many(["calm"])

    ran = simulate_scenario(Order(scenario=scenario, level="sim", seed=1), variant=variant)

    [giveup] = [event for event in ran.events if isinstance(event, GiveUp)]
    judged = judgement_of(ran, variant=variant)
    [stuck] = [one for one in judged.invariants if one.invariant == "V16"]
    assert judged.outcome is stuck.outcome is Outcome.FAIL
    assert timer in str(giveup.why)
    assert timer in str(stuck.anomalies[0].then)


def test_a_wait_of_less_than_a_millisecond_lets_time_pass_too() -> None:
    loop = VirtualLoop()

    async def poll() -> None:
        while loop.now_ms() < 20:  # noqa: ASYNC110 - what users' functions do
            await asyncio.sleep(0.0001)

    loop.run_until_complete(poll())

    assert loop.now_ms() == 20
    loop.close()
