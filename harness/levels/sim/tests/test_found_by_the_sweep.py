"""What random scenarios have found in the simulation itself, each as a small scenario that showed it."""

from __future__ import annotations

from typing import Any

from harness.history.event import FaultEvent, GiveUp, Kill
from harness.judge.checkers.judge import judge
from harness.levels.sim.run import Simulated, simulate_scenario
from harness.scenario.model import Scenario
from harness.scenario.order import Order
from harness.sut.defects import variant_of
from harness.sut.variant import HONEST, Variant
from tools.cases import each


def ran(*, seed: int, variant: Variant = HONEST, **parts: Any) -> Simulated:
    scenario = Scenario.model_validate(
        {"scenario": "found", "about": "A run that went wrong once.", "decisive": ["V9"], **parts}
    )
    return simulate_scenario(Order(scenario=scenario, level="sim", seed=seed), variant=variant)


def convicts(run: Simulated) -> list[str]:
    return [verdict.invariant for verdict in judge(run.header, run.events).convicted()]


@each("seed", range(8))
def test_a_reply_that_is_held_and_then_swallowed_is_no_answer(seed: int) -> None:
    run = ran(
        seed=seed,
        operator={"mode": "unordered", "capacity": 2},
        workload={
            "records": 7,
            "subtasks": 1,
            "keys": 1,
            "watermark_every": 1,
            "rate": "100000/s",
            "service": "60ms",
            "checkpoint_every": 2,
        },
        sink="idempotent",
        faults=[
            {"id": "hole", "do": "blackhole", "link": "lookups", "for": "70ms", "when": {"call": 3}},
            {"id": "hold", "do": "hold_reply", "link": "lookups", "for": "20ms", "when": {"call": 3}},
            {"id": "full", "do": "read_only", "for": "75ms", "when": {"call": 2}},
        ],
    )

    assert convicts(run) == []


def test_a_hung_run_is_given_up_though_others_ask_the_database_on_and_on() -> None:
    run = ran(
        seed=1,
        variant=variant_of("tools.defects:loses_completions"),
        operator={"mode": "ordered", "capacity": 2},
        workload={"records": 2_000, "subtasks": 2, "rate": "5000/s", "checkpoint_every": 200},
        sink="two-phase",
    )

    assert "V16" in convicts(run)
    giveup = next(event for event in run.events if isinstance(event, GiveUp))
    last = max(event.t for event in run.events if isinstance(event, Kill))
    assert giveup.t - last == 30_000_000


def test_a_failure_between_the_end_of_the_source_and_that_of_the_lookups_is_retried_at_their_end() -> None:
    """The operator in front runs mail of the lookups as it finishes, and their input ends only then (A85)."""
    run = ran(
        seed=101_496,
        operator={
            "mode": "ordered",
            "capacity": 5,
            "timeout": "1077ms",
            "tries": 4,
            "retry_delay": "3ms",
            "retry_multiplier": 2.0,
            "retry_delay_max": "60ms",
            "connections": 5,
            "downstream": {"takes": 3, "shut": "2ms"},
        },
        workload={
            "records": 16,
            "subtasks": 1,
            "keys": 2,
            "rate": "100000/s",
            "watermark_every": 5,
            "checkpoint_every": 5,
            "service": "5ms",
            "failing_every": 2,
            "expected": "untold",
        },
        task={"inputs": 1, "gap": "145ms", "async_snapshot": 4, "latency_markers": 6},
        sink="two-phase",
        faults=[
            {
                "id": "a",
                "do": "latency",
                "link": "lookups",
                "delay": "123ms",
                "for": "138ms",
                "when": {"call": 9},
            },
            {"id": "b", "do": "poison", "subtask": 0, "how": "raises", "when": {"record": 16}, "times": 3},
            {"id": "c", "do": "change_rows", "count": 1, "for": "106ms", "when": {"call": 13}},
        ],
    )

    assert convicts(run) == []


def test_a_change_of_rows_in_a_table_without_rows_changes_nothing_and_has_no_evidence() -> None:
    run = ran(
        seed=7,  # draws no row for either key
        operator={"mode": "ordered"},
        workload={"records": 20, "subtasks": 1, "keys": 2, "fanout": 2, "watermark_every": 0},
        faults=[{"id": "change", "do": "change_rows", "count": 1, "when": {"call": 3}, "for": "50ms"}],
    )

    assert run.error is None
    assert not run.tables.customers.by_key
    assert [event.evidence for event in run.events if isinstance(event, FaultEvent)][1:] == [{}]


def test_a_call_that_was_stalled_goes_on_in_its_own_loop_though_others_ran_meanwhile() -> None:
    """Else `asyncio.timeout` finds no task, and the call fails or never ends."""
    run = ran(
        seed=3,
        operator={"mode": "ordered", "capacity": 1, "on_error": "dead-letter"},
        workload={"records": 2, "keys": 2, "watermark_every": 1, "checkpoint_every": 2},
        sink="two-phase",
        faults=[
            {"id": "stall", "do": "loop_stall", "subtask": 1, "for": "2ms", "when": {"at": "1ms"}},
            {"id": "change", "do": "change_rows", "count": 1, "when": {"call": 1}},
        ],
    )

    assert run.error is None
    assert not run.tables.dead_letter
    assert convicts(run) == []


@each("seed", range(8))
def test_an_attempt_that_is_killed_right_behind_a_long_wait_for_its_sink_owes_no_timeout_of_that_time(
    seed: int,
) -> None:
    run = ran(
        seed=seed,
        operator={"mode": "unordered", "capacity": 5, "timeout": "46ms", "on_timeout": []},
        workload={
            "records": 16,
            "subtasks": 1,
            "watermark_every": 2,
            "rate": "500/s",
            "service": "60ms",
            "checkpoint_every": 8,
        },
        sink="atomic",
        faults=[
            {
                "id": "dies",
                "do": "kill_worker",
                "subtask": 0,
                "how": "sigkill",
                "when": {"phase": "emit", "hit": 3},
            },
            {"id": "cut", "do": "reset", "link": "sink", "for": "104ms", "when": {"call": 5}},
            {"id": "lost", "do": "lost_commit_reply", "link": "sink", "nth": 1, "when": {"at": "0ms"}},
        ],
    )

    assert [kill.by for kill in run.events if isinstance(kill, Kill)] == ["dies"]
    assert convicts(run) == []
