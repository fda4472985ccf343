"""V6: every watermark becomes visible, and none waits longer than the bound once nothing ahead of it is open."""

from __future__ import annotations

from typing import Any

import pytest

from harness.history.verdict import Outcome
from harness.judge.checkers.tests.small_histories import (
    Json,
    answered,
    called,
    commit,
    done,
    ended,
    event,
    found,
    history,
    left,
    owm,
    restart,
    settled,
    snap,
    stall,
    start,
    took,
    verdict,
    wm,
)
from tools.cases import each

BOUND: Json = {"bounds": {"watermark_hold": 100}}
COALESCING: Json = {"operator": {"coalesces_watermarks": True}}


def test_a_watermark_that_never_leaves_is_lost_once_the_run_has_finished() -> None:
    parts = [start(), wm(5, 0), wm(9, 1), owm(9)]

    assert found("V6", history(parts, ended())) == [("watermark-lost", (2,))]
    assert verdict("V6", history(parts)).outcome is Outcome.UNKNOWN


def test_one_that_was_held_convicts_also_before_the_end() -> None:
    lines = history(start(), wm(5, 0), owm(5, ms=200), wm(6, 1), **BOUND)

    assert found("V6", lines) == [("held", (2, 3))]


def test_of_equal_watermarks_the_later_ones_are_lost() -> None:
    parts = [start(), wm(5, 0), wm(5, 1), wm(5, 2), owm(5), owm(5), ended()]

    assert found("V6", history(parts)) == [("watermark-lost", (4,))]


@pytest.mark.parametrize(
    ("marks", "leaving", "lost"),
    [([5, 9], [9], []), ([5, 9], [5], [1]), ([5, 7, 5], [5], []), ([5, 7, 5, 8], [5], [3]), ([5], [], [0])],
)
def test_with_coalescing_a_later_one_stands_for_all_before_it(
    marks: list[int], leaving: list[int], lost: list[int]
) -> None:
    """A later position of a value that has left counts as left."""
    taken = [wm(w, pos) for pos, w in enumerate(marks)]

    lines = history(start(), taken, [owm(w) for w in leaving], ended(), **COALESCING)

    assert found("V6", lines) == [("watermark-lost", (2 + pos,)) for pos in lost]


EPOCH = [start(), wm(5, 0), owm(5), snap(1, 1), done(1)]


@pytest.mark.parametrize(
    ("sink", "lost"), [("append", False), ("rollback", False), ("atomic", True), ("two-phase", True)]
)
def test_what_no_commit_shows_is_not_visible(sink: str, *, lost: bool) -> None:
    assert bool(found("V6", history(EPOCH, ended(), sink=sink))) is lost
    assert found("V6", history(EPOCH, commit(1), ended(), sink=sink)) == []


def test_what_a_rollback_took_back_must_leave_again() -> None:
    parts = [start(), wm(5, 0), snap(1, 1, {"w": 5, "pos": 0}), done(1), owm(5)]
    again = restart(1, 1, {"w": 5, "pos": 0})

    assert found("V6", history(parts, again, ended(a=2))) == [("watermark-lost", (2,))]
    assert found("V6", history(parts, again, owm(5, a=2), ended(a=2))) == []


@pytest.mark.parametrize(("at_ms", "held"), [(100.01, False), (100.011, True)])
def test_the_bound_itself_is_allowed(at_ms: float, *, held: bool) -> None:
    lines = history(start(), wm(5, 0), owm(5, ms=at_ms), ended(), **BOUND)

    assert found("V6", lines) == [("held", (2, 3))] * held


def test_without_the_bound_nothing_is_held() -> None:
    assert found("V6", history(start(), wm(5, 0), owm(5, ms=10**9), ended())) == []


def test_a_bound_of_nothing_allows_the_same_microsecond() -> None:
    header: Json = {"bounds": {"watermark_hold": 0}}

    assert found("V6", history(start(), wm(5, 0, ms=1), owm(5, ms=1), ended(), **header)) == []
    assert found("V6", history(start(), wm(5, 0, ms=1), owm(5), ended(), **header)) == [("held", (2, 3))]


def test_the_wait_begins_with_the_last_record_ahead_of_it() -> None:
    """Event 7 resolves it; the record behind the watermark does not matter."""
    taken = [start(), took("a", 0), wm(5, 1), took("b", 2)]
    a_leaves = [called("a", ms=400), answered("a"), left("a", ms=500)]

    lines = history(taken, a_leaves, owm(5, ms=601), settled("b"), ended(), **BOUND)

    assert found("V6", lines) == [("held", (7, 8))]


def test_a_dead_letter_resolves_its_record() -> None:
    taken = [start(), took("a", 0), wm(5, 1), event("dead", id="a", ms=50)]

    assert found("V6", history(taken, owm(5, ms=150.001), ended(), **BOUND)) == [("held", (4, 5))]


def test_a_record_that_its_outcome_reopens_is_waited_for_again() -> None:
    taken = [start(), took("a", 0), wm(5, 1), left("a"), called("a")]
    more = [answered("a", r="timeout", v=["v", "w"], ms=500), left("a", j=1, v="w", ms=510)]

    assert found("V6", history(taken, more, owm(5, ms=600), ended(), **BOUND)) == []


def test_one_that_crosses_an_open_record_is_not_held_but_crossing() -> None:
    lines = history(start(), took("a", 0), wm(5, 1), owm(5, ms=900), settled("a"), ended(), **BOUND)

    assert found("V6", lines) == []


def test_a_watermark_holds_no_other_back() -> None:
    """Both were ready at once; that the first one is late excuses nothing."""
    lines = history(start(), wm(5, 0), wm(9, 1), owm(5, ms=90), owm(9, ms=180), ended(), **BOUND)

    assert found("V6", lines) == [("held", (3, 5))]


def test_a_restored_one_is_ready_from_the_restore_on() -> None:
    parts = [start(), wm(5, 0), snap(1, 1, {"w": 5, "pos": 0}), done(1)]
    again = [
        event("kill", ms=900),
        start(1, 1, a=2),
        event("restore", a=2, c=1, elements=[{"w": 5, "pos": 0}]),
    ]

    assert found("V6", history(parts, again, owm(5, a=2, ms=1000.02), ended(a=2), **BOUND)) == []
    late = history(parts, again, owm(5, a=2, ms=1000.021), ended(a=2), **BOUND)
    assert found("V6", late) == [("held", (7, 8))]


def test_a_restored_id_that_was_never_taken_in_holds_nothing_back() -> None:
    elements: list[Json] = [{"id": "ghost"}, {"w": 5, "pos": 0}]
    parts = [start(), wm(5, 0), snap(1, 1, *elements), done(1), restart(1, 1, *elements)]

    assert found("V6", history(parts, owm(5, a=2, ms=200), ended(a=2), **BOUND)) == [("held", (7, 8))]


def test_a_zombie_has_the_same_bound() -> None:
    lines = history(start(), wm(5, 0), start(a=2), wm(5, 0, a=2), owm(5, a=2), owm(5, ms=200), **BOUND)

    assert ("held", (2, 6)) in found("V6", lines)


@each(
    ("begin_ms", "end_ms", "excused"),
    [(10, 20, True), (0, 1, True), (0, 0.5, False), (300, 400, True), (300.5, 400, False), (0, None, True)],
)
def test_a_stall_excuses_where_it_overlaps_the_wait(
    begin_ms: float, end_ms: float | None, *, excused: bool
) -> None:
    """The watermark is ready at 1 ms and leaves at 300 ms."""
    timed = [start(ms=0), wm(5, 0, ms=1), owm(5, ms=300), stall("begin", ms=begin_ms)]
    timed += [stall("end", ms=end_ms)] if end_ms is not None else []
    timed.sort(key=lambda told: told["ms"])

    assert bool(found("V6", history(timed, **BOUND))) is not excused


def test_a_fault_that_stalls_nothing_excuses_nothing() -> None:
    slow = event("fault", f="latency", phase="begin")
    lines = history(start(), wm(5, 0), slow, owm(5, ms=300), ended(), **BOUND)

    assert [kind for kind, _ in found("V6", lines)] == ["held"]


def test_of_two_faults_of_one_name_the_older_one_ends_first() -> None:
    """The first, a stall, ends at 1 ms; the second stalls nothing and goes on."""
    faults = [stall("begin"), event("fault", f="pause", phase="begin"), stall("end", ms=1)]
    lines = history(start(), faults, wm(5, 0, ms=2), owm(5, ms=300), ended(), **BOUND)

    assert [kind for kind, _ in found("V6", lines)] == ["held"]


def test_with_coalescing_it_may_be_the_later_one_of_its_value_that_leaves() -> None:
    """Event 4 is the second 5, ready at 250 ms."""
    parts = [start(), wm(5, 0), wm(7, 1), wm(5, 2, ms=250), owm(5, ms=300), ended()]
    header = BOUND | COALESCING

    assert found("V6", history(parts, **header)) == []
    assert ("held", (2, 5)) in found("V6", history(parts, **BOUND))


def test_with_coalescing_a_later_one_that_is_not_ready_does_not_excuse() -> None:
    parts = [start(), wm(5, 0), took("a", 1), wm(5, 2, ms=250), owm(5, ms=300), settled("a"), ended()]

    assert found("V6", history(parts, **(BOUND | COALESCING))) == [("held", (2, 5))]


@pytest.mark.parametrize(
    ("parts", "outcome"),
    [([start(), took("a", 0), settled("a")], Outcome.VACUOUS), ([start(), wm(5, 0), owm(5)], Outcome.PASS)],
)
def test_without_a_watermark_it_is_vacuous(parts: list[Any], outcome: Outcome) -> None:
    assert verdict("V6", history(parts, ended())).outcome is outcome
