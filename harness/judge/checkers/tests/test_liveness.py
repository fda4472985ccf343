"""V16: nobody has to give up waiting once every fault has healed."""

from __future__ import annotations

from typing import Any

import pytest

from harness.history.verdict import Outcome
from harness.judge.checkers.tests.small_histories import (
    Json,
    answered,
    called,
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
    start,
    took,
    verdict,
    wm,
)

RECOVER = {"bounds": {"recover": 100}}


def giveup(**fields: Any) -> Json:
    return event("giveup", **{"why": "the budget is over", **fields})


def fault(phase: str, **fields: Any) -> Json:
    evidence = {"evidence": {"seen": 1}} if phase == "end" else {}
    return event("fault", **{"f": "cut", "phase": phase, **evidence, **fields})


def stuck(lines: list[Json]) -> tuple[Any, ...]:
    (anomaly,) = verdict("V16", lines).anomalies
    return anomaly.kind, anomaly.s, anomaly.w if anomaly.id is None else anomaly.id, anomaly.events


def test_a_run_that_came_to_its_end_is_live() -> None:
    assert verdict("V16", history(start(), took("a", 0), settled("a"), ended())).outcome is Outcome.PASS


def test_who_neither_ended_nor_was_given_up_is_unknown() -> None:
    assert verdict("V16", history(start(), took("a", 0))).outcome is Outcome.UNKNOWN
    assert verdict("V16", history()).outcome is Outcome.UNKNOWN


def test_a_run_given_up_without_a_fault_is_stuck_at_its_oldest_open_element() -> None:
    lines = history(start(), took("a", 0), settled("a"), took("b", 1), took("c", 2), giveup())

    assert stuck(lines) == ("stuck", 0, "b", (6, 8))


def test_one_that_was_given_up_is_stuck_also_if_it_ends_later() -> None:
    lines = history(start(), took("a", 0), giveup(), settled("a"), ended())

    assert stuck(lines) == ("stuck", 0, "a", (2, 3))


def test_a_watermark_may_be_what_is_stuck() -> None:
    lines = history(start(), wm(5, 0), owm(5), wm(7, 1), took("a", 2), giveup())

    assert stuck(lines) == ("stuck", 0, 7, (4, 6))


def test_with_coalescing_a_later_position_of_what_left_is_not_stuck() -> None:
    coalescing: Json = {"operator": {"coalesces_watermarks": True}}

    lines = history(start(), wm(5, 0), owm(5), wm(5, 1), took("a", 2), giveup(), **coalescing)

    assert stuck(lines) == ("stuck", 0, "a", (5, 6))


def test_what_has_an_outcome_and_not_left_is_unresolved() -> None:
    assert stuck(history(start(), took("a", 0), called("a"), answered("a"), giveup()))[2] == "a"


def test_only_what_happened_before_counts() -> None:
    lines = history(start(), took("a", 0), giveup(), called("a"), answered("a"), left("a"))

    assert stuck(lines) == ("stuck", 0, "a", (2, 3))


def test_the_newest_attempt_is_asked_and_its_restored_elements_come_first() -> None:
    parts = [start(), took("a", 0), called("a"), took("b", 1), snap(1, 2, {"id": "a"}, {"id": "b"}), done(1)]
    again = [restart(1, 2, {"id": "a"}, {"id": "b"}), settled("a", a=2), took("c", 2, a=2)]

    assert stuck(history(parts, again, giveup())) == ("stuck", 0, "b", (9, 14))


def test_of_two_subtasks_the_older_open_element_is_named() -> None:
    other = [start(s=1), took("b", 0, s=1)]

    assert stuck(history(start(), other, took("a", 0), giveup())) == ("stuck", 1, "b", (3, 5))


def test_a_run_may_be_stuck_with_nothing_open() -> None:
    lines = history(start(), took("a", 0), settled("a"), giveup())

    assert stuck(lines) == ("stuck", None, None, (6,))


@pytest.mark.parametrize(("ms", "outcome"), [(200, Outcome.FAIL), (199.999, Outcome.UNKNOWN)])
def test_after_the_last_fault_there_is_time_to_recover(ms: float, outcome: Outcome) -> None:
    parts = [start(), took("a", 0), fault("begin", ms=10), fault("end", ms=100)]

    assert verdict("V16", history(parts, giveup(ms=ms), **RECOVER)).outcome is outcome


def test_a_fault_that_is_active_or_healed_only_afterwards_excuses() -> None:
    parts = [start(), took("a", 0), fault("begin", ms=10)]
    healed = [fault("end", ms=2000)]

    assert verdict("V16", history(parts, giveup(ms=1000))).outcome is Outcome.UNKNOWN
    assert verdict("V16", history(parts, giveup(ms=1000), healed)).outcome is Outcome.UNKNOWN


def test_of_two_faults_of_one_name_both_must_have_ended() -> None:
    parts = [start(), fault("begin", ms=1), fault("begin", ms=2), fault("end", ms=3)]

    assert verdict("V16", history(parts, giveup(ms=900))).outcome is Outcome.UNKNOWN
    assert found("V16", history(parts, fault("end", ms=4), giveup(ms=900))) == [("stuck", (6,))]


def test_a_fault_that_begins_after_the_wait_was_given_up_excuses_nothing() -> None:
    assert found("V16", history(start(), giveup(), fault("begin"))) == [("stuck", (2,))]
