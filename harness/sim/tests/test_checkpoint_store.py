"""The simulated checkpoint store: what is torn or missing is passed over, but never below what is visible."""

from __future__ import annotations

import pytest

from harness.checkpoint_store import StoreLost
from harness.history.event import Done, Effect, Restore, Retire, Start
from harness.scenario import Scenario
from harness.sim.checkpoint_store import SimulatedStore
from harness.sim.coordinator import Part
from harness.levels.sim.run import judged
from harness.sim.scenario_run import Simulated
from harness.sim.tests.fault_samples import sample, simulated
from harness.verdict import Outcome
from reference_impl.task.positioned_input import Checkpoint


def parts(*numbers: int) -> list[Part]:
    return [
        Part(
            subtask=0,
            attempt=1,
            checkpoint=Checkpoint(number=number, position=number, elements=()),
            elements=[],
        )
        for number in numbers
    ]


def test_the_newest_part_is_restored() -> None:
    store, (newest, older) = SimulatedStore(), parts(7, 6)

    assert store.newest([newest, older], floor=0) is newest


def test_a_part_that_is_torn_is_passed_over() -> None:
    store, (newest, older) = SimulatedStore(), parts(7, 6)
    store.breaks(newest, "torn")

    assert store.newest([newest, older], floor=0) is older
    assert store.passed_over == 1


def test_nothing_older_than_what_is_visible_is_given_back() -> None:
    store, (newest, older) = SimulatedStore(), parts(7, 6)
    store.breaks(newest, "missing")

    with pytest.raises(StoreLost, match="checkpoint 7 is missing; older ones than epoch 7"):
        store.newest([newest, older], floor=7)


def test_before_the_first_checkpoint_there_is_nothing_to_restore() -> None:
    assert SimulatedStore().newest([], floor=0) is None


def broken_then_killed(sink: str, broken: str) -> Simulated:
    plain = sample(broken, "kill_worker", sink=sink).model_dump(mode="json", by_alias=True)
    missing, dies = plain["faults"]
    missing |= {"when": {"phase": "accept", "hit": 53}}
    dies |= {"when": {"phase": "accept", "hit": 54}}
    return simulated(Scenario.model_validate(plain))


def test_an_idempotent_sink_goes_back_further_and_shows_each_row_once() -> None:
    ran = broken_then_killed("idempotent", "store_newest_missing")

    [restore] = [event.c for event in ran.events if isinstance(event, Restore)]
    killed_us = next(event.t for event in ran.events if isinstance(event, Start) and event.a == 2)
    done = [event.c for event in ran.events if isinstance(event, Done) and event.t < killed_us]
    rows = [(event.s, event.id, event.j) for event in ran.events if isinstance(event, Effect)]
    assert restore == done[-1] - 1
    assert len(rows) == len(set(rows)) == 120
    assert judgement_of(ran).outcome is Outcome.PASS


def test_a_two_phase_sink_does_not_go_back_below_what_is_committed() -> None:
    ran = broken_then_killed("two-phase", "store_newest_missing")

    assert "no checkpoint of subtask 0 can be restored" in str(ran.error)
    assert judgement_of(ran).outcome is Outcome.UNKNOWN


def test_three_completed_checkpoints_may_still_be_restored() -> None:
    ran = simulated(sample("latency", sink="two-phase"))

    done = [event.c for event in ran.events if isinstance(event, Done)]
    assert [event.c for event in ran.events if isinstance(event, Retire)] == [
        number - 3 for number in done[3:]
    ]
