"""What a scenario's keys of operator and workload do in a run: the same attempt has them at every level."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from msgspec import UNSET

from harness.history.event import Call, Commit, Dead, In, Out, Owm, Res, Snap
from harness.history.verdict import Judgement, Outcome
from harness.judge.checkers.judge import judge
from harness.levels.sim.run import Simulated, simulate_scenario
from harness.scenario.model import Scenario
from harness.scenario.order import Order
from tools.cases import each

KILL = {"id": "kill", "do": "kill_worker", "subtask": 0, "when": {"phase": "emit", "hit": 7}}


def ran(*, operator: dict[str, Any], workload: dict[str, Any], **others: Any) -> Simulated:
    """A short run, in which calls wait for each other."""
    scenario = Scenario.model_validate(
        {
            "scenario": "keys",
            "about": "A short run with one key set.",
            "operator": {"mode": "ordered", "capacity": 3, "timeout": "5s", **operator},
            "workload": {"records": 20, "subtasks": 1, "service": "60ms", "watermark_every": 3, **workload},
            "decisive": ["V8"],
            **others,
        }
    )
    return simulate_scenario(Order(scenario=scenario, level="sim", seed=1))


def judged(run: Simulated) -> Judgement:
    return judge(run.header, run.events)


def events(run: Simulated, kind: type[Any]) -> list[Any]:
    return [event for event in run.events if isinstance(event, kind)]


@each(
    ("operator", "workload"),
    [
        ({}, {"checkpoint_interval": "20ms"}),
        ({"back_pressure": "hard"}, {"checkpoint_interval": "20ms"}),
        ({"downstream": {"takes": 2, "shut": "30ms"}}, {}),
        ({"mode": "unordered", "downstream": {"takes": 2, "shut": "30ms"}}, {"checkpoint_interval": "20ms"}),
        ({"back_pressure": "hard", "upstream": {"capacity": 4, "delay": "20ms"}}, {"checkpoint_every": 4}),
        (
            {"mode": "unordered", "back_pressure": "hard", "upstream": {"capacity": 4, "delay": "20ms"}},
            {"checkpoint_every": 4, "reuses_objects": True, "watermarks": "wild", "final_watermark": True},
        ),
        ({"timeout": "30ms", "on_timeout": ["late"], "cancels": False}, {}),
        ({"timeout": "40ms", "on_timeout": "dead-letter"}, {}),
        ({}, {"reuses_objects": True}),
        ({}, {"watermarks": "repeating", "final_watermark": True, "timestamps": "some"}),
        ({"mode": "unordered"}, {"watermarks": "wild", "timestamps": "none", "expected": "untold"}),
    ],
)
def test_each_key_leaves_every_invariant_whole_though_a_worker_dies(
    operator: dict[str, Any], workload: dict[str, Any]
) -> None:
    run = ran(operator=operator, workload=workload, faults=[KILL])

    assert judged(run).outcome is Outcome.PASS


def test_checkpoints_by_time_come_while_the_queue_is_full() -> None:
    run = ran(operator={"capacity": 1}, workload={"checkpoint_interval": "20ms", "service": "200ms"})

    commits = [event.t for event in events(run, Commit)]
    assert len(commits) > 20
    assert max(later - sooner for sooner, later in pairwise(commits)) < 60_000


def test_checkpoints_by_time_that_nothing_disturbs_claim_a_bound() -> None:
    calm = ran(operator={"timeout": "0ms"}, workload={"checkpoint_interval": "20ms"}, decisive=["V18"])
    hit = ran(operator={}, workload={"checkpoint_interval": "20ms"}, faults=[KILL])

    assert calm.header.bounds.checkpoint_gap == 100 + 2 * 20 + 60
    assert judged(calm).outcome is Outcome.PASS
    assert hit.header.bounds.checkpoint_gap is None


def test_hard_back_pressure_has_the_element_that_waits_in_the_snapshot() -> None:
    run = ran(operator={"capacity": 1, "back_pressure": "hard"}, workload={"checkpoint_interval": "20ms"})

    assert max(len(snap.elements) for snap in events(run, Snap)) == 2


def test_a_downstream_without_room_holds_results() -> None:
    shut = ran(operator={"downstream": {"takes": 2, "shut": "500ms"}}, workload={})
    free = ran(operator={}, workload={})

    assert shut.virtual_ms > free.virtual_ms + 2_000


def test_a_timeout_that_cancels_nothing_leaves_its_answer_to_come() -> None:
    run = ran(
        operator={"timeout": "30ms", "on_timeout": ["late"], "cancels": False, "connections": 1}, workload={}
    )

    settled = Counter((event.id, event.r) for event in events(run, Res))
    assert any(ending == "timeout" for _, ending in settled)
    assert max(settled.values()) == 1


def test_a_timeout_can_be_a_dead_letter() -> None:
    run = ran(operator={"timeout": "40ms", "on_timeout": "dead-letter"}, workload={})

    dead = {event.id for event in events(run, Dead)}
    assert dead == {event.id for event in events(run, Res) if event.r == "timeout"}
    assert dead
    assert not dead & {event.id for event in events(run, Out)}


def test_a_source_that_uses_an_object_again_has_its_records_copied() -> None:
    run = ran(operator={}, workload={"reuses_objects": True})

    assert [event.id for event in events(run, Call)] == list(range(20))


def test_the_final_watermark_is_higher_than_all() -> None:
    run = ran(operator={}, workload={"final_watermark": True})

    assert [event.w for event in events(run, Owm)][-1] == "end"


@pytest.mark.parametrize(
    ("timestamps", "missing"), [("all", {False}), ("some", {True, False}), ("none", {True})]
)
def test_records_have_event_times_as_asked(timestamps: str, missing: set[bool]) -> None:
    run = ran(operator={}, workload={"timestamps": timestamps})

    assert {event.ts is None for event in events(run, In)} == missing


def test_results_that_are_not_told_are_not_in_the_history() -> None:
    run = ran(operator={}, workload={"expected": "untold"})

    assert all(event.expect is UNSET for event in events(run, In))
