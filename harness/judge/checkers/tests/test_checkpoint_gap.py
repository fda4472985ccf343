"""V18: from the first start to the last end no two completions are further apart than the bound."""

from __future__ import annotations

from typing import Any

import pytest

from harness.history.verdict import Outcome
from harness.judge.checkers.tests.small_histories import (
    commit,
    done,
    ended,
    event,
    found,
    history,
    restart,
    snap,
    start,
    verdict,
)
from tools.cases import each


def gaps(*parts: Any, sink: str = "rollback", bound: int = 100) -> list[tuple[int, ...]]:
    anomalies = found("V18", history(*parts, sink=sink, bounds={"checkpoint_gap": bound}))
    assert all(kind == "checkpoint-gap" for kind, _ in anomalies)
    return [events for _, events in anomalies]


def finish(ms: float, **fields: Any) -> list[Any]:
    return [event("end", ms=ms, **fields), event("ended", ms=ms, **fields)]


@pytest.mark.parametrize(("more_ms", "wrong"), [(0, []), (0.001, [(1, 3)])])
def test_the_bound_itself_is_allowed_before_the_first_completion(
    more_ms: float, wrong: list[tuple[int, int]]
) -> None:
    assert gaps(start(ms=5), snap(1, 0), done(1, ms=105 + more_ms), finish(110)) == wrong


@pytest.mark.parametrize(("more_ms", "wrong"), [(0, []), (0.001, [(2, 3)])])
def test_the_bound_itself_is_allowed_between_two(more_ms: float, wrong: list[tuple[int, int]]) -> None:
    assert gaps(start(ms=0), done(1, ms=50), done(2, ms=150 + more_ms), finish(160)) == wrong


@pytest.mark.parametrize(("more_ms", "wrong"), [(0, []), (0.001, [(2, 3)])])
def test_the_bound_itself_is_allowed_before_the_end(more_ms: float, wrong: list[tuple[int, int]]) -> None:
    assert gaps(start(ms=0), done(1, ms=50), finish(150 + more_ms)) == wrong


def test_without_a_completion_the_whole_run_is_the_gap() -> None:
    assert gaps(start(ms=0), finish(100)) == []
    assert gaps(start(ms=0), finish(101)) == [(1, 2)]


def test_what_comes_after_the_end_of_the_source_owes_no_checkpoint() -> None:
    assert gaps(start(ms=0), event("end", ms=90), event("ended", ms=900)) == []


def test_a_run_that_did_not_finish_is_measured_to_its_last_event() -> None:
    assert gaps(start(ms=0), event("end", ms=90), event("giveup", why="late", ms=101)) == [(1, 3)]


def test_two_completions_count_though_the_source_has_ended_between_them() -> None:
    assert gaps(start(ms=0), done(1, ms=50), finish(60), done(2, ms=151)) == [(2, 5)]


def test_every_gap_is_told() -> None:
    assert gaps(start(ms=0), done(1, ms=200), done(2, ms=400), finish(600)) == [(1, 2), (2, 3), (3, 4)]


def test_a_restart_stops_no_clock() -> None:
    """The first start counts, of whatever subtask and attempt."""
    parts = [start(ms=0), snap(1, 0), done(1, ms=50), restart(1, 0), done(2, ms=151), finish(160, a=2)]

    assert gaps(parts) == [(3, 7)]


def test_a_completion_that_is_told_again_completes_nothing() -> None:
    assert gaps(start(ms=0), snap(1, 0), done(1, ms=80), done(1, ms=160), finish(200)) == [(3, 5)]


def test_a_number_that_a_later_attempt_snaps_again_is_completed_again() -> None:
    parts = [start(ms=0), snap(1, 0), done(1, ms=80), event("kill"), start(a=2), snap(1, 0, a=2)]

    assert gaps(parts, done(1, ms=160), finish(240, a=2)) == []


def test_with_atomic_each_subtask_is_measured_by_itself() -> None:
    two = [start(ms=0), start(s=1, ms=60), snap(1, 0), commit(1, ms=90), snap(1, 0, s=1)]
    rest = [finish(180), commit(1, s=1, ms=161), finish(200, s=1)]
    rest = sorted((e for part in rest for e in (part if isinstance(part, list) else [part])), key=in_time)

    assert gaps(two, rest, sink="atomic") == [(2, 6)]


def in_time(told: Any) -> float:
    return float(told["ms"])


def test_with_atomic_a_done_completes_nothing() -> None:
    assert gaps(start(ms=0), snap(1, 0), done(1, ms=50), finish(101), sink="atomic") == [(1, 4)]


def test_with_atomic_a_commit_of_nothing_and_a_second_one_complete_nothing() -> None:
    parts = [start(ms=0), snap(1, 0), commit(1, ms=50), commit(1, ms=80), commit(2, ms=120)]

    assert gaps(parts, finish(151), sink="atomic") == [(3, 6)]


def test_with_atomic_a_subtask_that_has_not_ended_is_measured_to_the_last_event() -> None:
    """Event 3 ends subtask 0 in time; subtask 1 runs on."""
    parts = [start(ms=0), start(s=1, ms=0), finish(50), event("giveup", why="late", ms=101)]

    assert gaps(parts, sink="atomic") == [(2, 5)]


def test_with_two_phase_it_is_the_coordinator_that_completes() -> None:
    parts = [start(ms=0), snap(1, 0), commit(1, ms=50), finish(101)]

    assert gaps(parts, sink="two-phase") == [(1, 4)]


@pytest.mark.parametrize("sink", ["rollback", "atomic"])
def test_the_anomaly_names_the_subtask_only_where_it_is_one_subtasks(sink: str) -> None:
    lines = history(start(ms=0), finish(101), sink=sink, bounds={"checkpoint_gap": 100})

    (anomaly,) = verdict("V18", lines).anomalies
    assert anomaly.s == (0 if sink == "atomic" else None)


@each(
    ("parts", "bounds", "outcome"),
    [
        ([start(), ended()], {}, Outcome.NOT_CLAIMED),
        ([start(), ended()], {"checkpoint_gap": 0}, Outcome.FAIL),
        ([start(ms=0), finish(0)], {"checkpoint_gap": 0}, Outcome.PASS),
        ([], {"checkpoint_gap": 5}, Outcome.VACUOUS),
        ([event("giveup", why=1)], {"checkpoint_gap": 5}, Outcome.VACUOUS),
        ([done(1)], {"checkpoint_gap": 5}, Outcome.VACUOUS),
        ([done(1), event("giveup", why=1, ms=9)], {"checkpoint_gap": 5}, Outcome.FAIL),
    ],
)
def test_it_applies_with_its_bound(parts: list[Any], bounds: dict[str, int], outcome: Outcome) -> None:
    assert verdict("V18", history(parts, bounds=bounds)).outcome is outcome
