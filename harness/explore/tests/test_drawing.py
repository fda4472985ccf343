"""Random scenarios: the same for a seed, sound, of every kind, and such that an honest operator lives through them."""

from __future__ import annotations

from functools import cache
from itertools import chain

from harness.explore.drawing import draw_scenario
from harness.explore.drawn_faults import DRAWN_FAULTS
from harness.faults.completions import AnswerAtTimeout
from harness.faults.parts.parts import SINK_FORMS
from harness.scenario.file import dump, loads
from harness.scenario.model import Fault, Scenario


@cache
def many() -> list[Scenario]:
    """The scenarios of the first seeds."""
    return [draw_scenario(seed) for seed in range(1500)]


def faults() -> list[Fault]:
    """Of all of them."""
    return list(chain.from_iterable(drawn.faults for drawn in many()))


def test_equal_seeds_are_equal_scenarios() -> None:
    assert [draw_scenario(seed) for seed in range(10)] == many()[:10]


def test_what_is_drawn_is_the_same_as_a_file() -> None:
    assert [loads(dump(drawn)) for drawn in many()[:20]] == many()[:20]


def test_every_choice_is_drawn() -> None:
    assert {drawn.sink for drawn in many()} == set(SINK_FORMS)
    by_time = {(one.workload.checkpoint_interval is not None, one.operator.back_pressure) for one in many()}
    assert by_time == {(False, "soft"), (False, "hard"), (True, "soft"), (True, "hard")}
    answers = {(str(one.operator.on_timeout), one.operator.on_error) for one in many()}
    assert answers >= {
        ("fail", "fail"),
        ("['substitute']", "dead-letter"),
        ("dead-letter", "fail"),
        ("[]", "fail"),
    }
    assert {one.workload.watermarks for one in many()} == {"rising", "repeating", "wild"}
    assert {one.task.inputs for one in many() if one.task is not None} == {1, 2}
    assert {one.operator.upstream is None for one in many()} == {True, False}
    timeouts = {one.task.alignment_timeout for one in many() if one.task is not None}
    assert timeouts == {None, 0, 5, 40}
    assert {one.workload.keys_like for one in many()} == {"numbers", "wide", "signed", "unicode", "composite"}
    assert (
        {one.workload.skew > 0 for one in many()}
        == {one.workload.row_bytes > 0 for one in many()}
        == {True, False}
    )
    growing = [one.operator for one in many() if one.operator.retry_multiplier is not None]
    assert {one.retry_delay_max is None for one in growing} == {True, False}


def test_some_backoffs_are_far_beyond_a_timeout_that_answers_for_its_record_trust15() -> None:
    failing = [one.operator for one in many() if one.workload.failing_every and one.operator.tries > 1]
    far = [one for one in failing if one.retry_delay >= 3 * one.timeout]

    assert len(far) > 10
    assert all(one.on_timeout != "fail" for one in far)


def test_latency_markers_and_an_asynchronous_snapshot_are_drawn_apart_trust7() -> None:
    tasks = [one.task for one in many() if one.task is not None]

    drawn = {(task.latency_markers > 0, task.async_snapshot > 0) for task in tasks}
    assert drawn == {(False, False), (False, True), (True, False), (True, True)}
    assert {task.lag > 0 for task in tasks} == {task.idle > 0 for task in tasks} == {True, False}
    assert any(task.catch_up for task in tasks)
    assert any(task.joined for task in tasks)
    assert any(task.latency_markers for task in tasks if task.alignment_timeout is not None)


def test_rows_change_where_a_record_may_yield_other_results_after_a_restart_trust6() -> None:
    changing = [one for one in many() if one.changing]

    assert {one.sink for one in changing} == set(SINK_FORMS) - {"idempotent"}
    assert {one.workload.keys_like for one in changing} == {one.workload.keys_like for one in many()}
    assert {one.task is None for one in changing} == {True, False}


def test_an_idempotent_sink_gets_several_results_of_a_record_and_a_zombie_trust7() -> None:
    several = [one for one in many() if one.sink == "idempotent" and one.workload.fanout > 1]

    assert any(fault.do == "zombie" for one in several for fault in one.faults)


def test_every_kind_of_fault_that_is_counted_is_drawn() -> None:
    assert {fault.do for fault in faults()} == set(DRAWN_FAULTS)


def test_some_runs_are_calm_and_claim_that_checkpoints_go_on() -> None:
    calm = [drawn for drawn in many() if not drawn.faults and drawn.workload.checkpoint_interval is not None]

    assert any(drawn.operator.back_pressure == "hard" for drawn in calm)


def test_faults_ask_for_fewer_restarts_than_a_run_allows() -> None:
    stops = [[fault for fault in drawn.faults if fault.do in {"kill_worker", "zombie"}] for drawn in many()]

    assert max(map(len, stops)) == 2


def test_nothing_stands_in_for_a_result_where_each_restart_must_give_the_same() -> None:
    idempotent = [drawn for drawn in many() if drawn.sink == "idempotent"]

    assert {str(drawn.operator.on_timeout) for drawn in idempotent} == {"fail"}


def test_a_task_behind_that_shows_idleness_is_not_drawn_beside_rows_that_change_trust7() -> None:
    drawn = draw_scenario(505243)  # would have both

    assert drawn.changing
    assert drawn.task is not None
    assert drawn.task.idle > 0
    assert not drawn.task.joined


def test_answers_race_with_timeouts_in_each_order_but_where_a_right_operator_may_fail() -> None:
    races = [(one, fault) for one in many() for fault in one.faults if isinstance(fault, AnswerAtTimeout)]

    assert {fault.how for _, fault in races} == {"before", "at", "after"}
    assert {one.levels for one, _ in races} == {("sim",)}
    assert {
        (fault.how, one.operator.tries > 1) for one, fault in races if one.operator.on_timeout == "fail"
    } == {("before", False), ("at", False)}


def test_long_queues_dense_checkpoints_and_rescales_close_together_are_drawn() -> None:
    operators, workloads = [one.operator for one in many()], [one.workload for one in many()]
    several = {one.operator.mode for one in many() if one.workload.fanout > 1}
    rescales = [[step.at.checkpoint for step in one.rescales] for one in many()]

    assert max(operator.capacity for operator in operators) == 40
    assert any(operator.downstream for operator in operators)
    assert {1, 2} <= {workload.checkpoint_every for workload in workloads}
    assert several == {"ordered", "unordered", "keyed"}
    assert any(len(at) > 1 and at[1] == at[0] + 1 for at in rescales)
