"""What is smaller: each step removes, lowers or rounds, and never makes a number larger than it was."""

from __future__ import annotations

from typing import Any

import pytest

from harness.explore.smaller import (
    alone,
    checkpoints_by_place,
    features,
    halved,
    leap,
    lesser,
    numbers,
    one_subtask,
    rounded_up,
    with_value,
    without,
)
from harness.scenario.model import Scenario
from harness.system.choices import Draw


def some_data() -> dict[str, Any]:
    return {
        "scenario": "large",
        "operator": {
            "mode": "unordered",
            "capacity": 8,
            "timeout": "489ms",
            "tries": 3,
            "retry_delay": "20ms",
        },
        "workload": {"records": 40, "subtasks": 3, "checkpoint_interval": "71ms", "rate": "400/s"},
        "faults": [
            {"id": "a", "do": "kill_worker", "subtask": 2, "when": {"phase": "emit", "hit": 30}},
            {"id": "b", "do": "reset", "link": "sink", "when": {"call": 20, "subtask": 1}},
        ],
    }


def test_a_step_leaves_its_origin_as_it_was() -> None:
    data = some_data()

    without(data, ("faults",), ("operator", "tries"))
    with_value(data, ("workload", "records"), 1)
    list(halved(data))
    list(one_subtask(data))
    leap(data, Draw(1, "leap"), faults=1)
    list(alone(data, records=6))

    assert data == some_data()


def test_fields_that_need_each_other_are_removed_at_once() -> None:
    assert (("operator", "tries"), ("operator", "retry_delay")) in list(features(some_data()))


def test_records_and_the_size_of_the_queue_are_lowered_and_never_left_out() -> None:
    removed = [paths for paths in features(some_data()) if len(paths) == 1]

    assert (("workload", "records"),) not in removed
    assert (("operator", "capacity"),) not in removed


def test_lesser_values_are_less_and_times_among_them_are_round() -> None:
    assert list(lesser(("workload", "records"), 4)) == [1, 2, 3]
    assert lesser(("operator", "timeout"), "489ms")[-1] == "200ms"
    assert rounded_up("489ms") == "500ms"
    assert rounded_up("500ms") is None
    assert rounded_up(7) is None


def test_a_period_is_lowered_last_and_not_to_almost_nothing() -> None:
    assert list(numbers(some_data()))[-1] == ("workload", "checkpoint_interval")
    assert lesser(("workload", "checkpoint_interval"), "71ms")[0] == "5ms"


def test_half_of_the_records_brings_the_triggers_along() -> None:
    *_, half, slower = halved(some_data())

    assert half["workload"]["records"] == 20
    assert [fault["when"].get("hit") or fault["when"].get("call") for fault in half["faults"]] == [15, 10]
    assert slower["workload"]["rate"] == "200/s"


def test_fewer_subtasks_keep_the_faults_on_those_that_are_left() -> None:
    one, two = one_subtask(some_data())

    assert [fault.get("subtask", fault["when"].get("subtask")) for fault in one["faults"]] == [0, 0]
    assert [fault.get("subtask", fault["when"].get("subtask")) for fault in two["faults"]] == [1, 1]


def test_checkpoints_by_time_become_checkpoints_by_place() -> None:
    every = [data["workload"] for data in checkpoints_by_place(some_data())]

    assert [workload["checkpoint_every"] for workload in every] == [1, 2, 3, 5]
    assert all("checkpoint_interval" not in workload for workload in every)


def test_a_leap_is_small_and_keeps_at_most_one_fault() -> None:
    draw = Draw(3, "leaps")

    leaps = [leap(some_data(), draw, faults=1) for _ in range(50)]

    assert all(one["workload"]["records"] <= 6 for one in leaps)
    assert all(one["workload"]["subtasks"] == 1 for one in leaps)
    assert {len(one.get("faults", ())) for one in leaps} == {0, 1}


def test_each_fault_alone_has_a_slow_source_and_few_records() -> None:
    first, second = alone(some_data(), records=6)

    assert [fault["id"] for made in (first, second) for fault in made["faults"]] == ["a", "b"]
    assert first["workload"] == {**some_data()["workload"], "records": 2, "rate": "1/s"}


@pytest.mark.parametrize("leaping", [True, False])
def test_a_small_variant_of_a_scenario_for_some_levels_only_is_valid(*, leaping: bool) -> None:
    zombie = {"id": "z", "do": "zombie", "subtask": 0, "when": {"phase": "call"}, "for": "1ms"}
    data = {
        "scenario": "large",
        "about": "Cannot be run at level spark.",
        "levels": ["sim", "live"],
        "operator": {"mode": "ordered"},
        "workload": {"records": 40, "subtasks": 1},
        "faults": [zombie],
        "decisive": ["V8"],
    }
    draw = Draw(3, "leaps")

    made = [leap(data, draw, faults=1) for _ in range(20)] if leaping else list(alone(data, records=6))

    assert {tuple(fault.do for fault in Scenario.model_validate(one).faults) for one in made} >= {("zombie",)}
