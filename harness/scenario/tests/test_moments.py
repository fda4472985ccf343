"""Triggers come by what was counted, whoever counts: the watch, an attempt, or a simulated run."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from harness.faults.parts.triggers import PHASES
from harness.faults.tests.entries import made
from harness.history.follower import Progress
from harness.scenario.moments import Moments, awaited, due, due_us, instant_ms, shown_by
from tools.cases import each


def is_due(moments: Moments, **when: Any) -> bool:
    return due(awaited(made("pause_worker", subtask=1, when=when)), moments)


def test_nothing_comes_before_anything_has_happened() -> None:
    for when in ({"call": 1}, {"record": 1}, {"checkpoint": 1}, {"phase": "emit"}, {"at": "0ms"}):
        assert not is_due(Moments(), **when)


@pytest.mark.parametrize(("call", "comes"), [(7, True), (8, False)])
def test_calls_are_those_of_all_subtasks_unless_one_is_named(call: int, comes: bool) -> None:  # noqa: FBT001 - a case
    """Also of a fault that an attempt does to itself, at every level."""
    moments = Moments(calls=Counter({0: 3, 1: 4}))

    of_one = [due(awaited(made("cut", link="sink", when={"call": 4, "subtask": s})), moments) for s in (0, 1)]

    assert is_due(moments, call=call) is comes
    assert of_one == [False, True]


def test_a_record_is_of_the_faults_own_subtask_unless_another_is_named() -> None:
    moments = Moments(taken=Counter({0: 9, 1: 4}))

    assert not is_due(moments, record=5)
    assert is_due(moments, record=4)


def test_a_checkpoint_is_of_any_subtask_unless_one_is_named() -> None:
    moments = Moments(commits=Counter({(0, 3): 1}))

    assert is_due(moments, checkpoint=3)
    assert not is_due(moments, checkpoint=3, subtask=1)
    assert not is_due(moments, checkpoint=2)


@each("phase", PHASES)
def test_a_phase_comes_at_its_hit_and_at_no_other(phase: str) -> None:
    moments, hits = Moments(), []

    for _ in range(4):
        moments.reach(1, phase)
        hits.append(is_due(moments, phase=phase, hit=3))

    assert hits == [False, False, True, False]


def test_a_phase_of_another_subtask_is_not_the_faults() -> None:
    moments = Moments()
    moments.reach(0, "emit")

    assert not is_due(moments, phase="emit", hit=1)


def test_from_outside_a_phase_has_come_once_the_attempt_has_stopped_there() -> None:
    assert is_due(Moments.of(Progress(stopped={"f": 5}), subtasks=1), phase="emit", hit=9)


def test_a_time_counts_from_the_first_record() -> None:
    fault = made("cut", link="sink", when={"at": "400ms"})

    after_ms = instant_ms(fault, seed=1)
    assert due_us(awaited(fault), Moments(), after_ms=after_ms, now_us=9) is None
    assert due_us(awaited(fault), Moments(begun_us=5_000), after_ms=after_ms, now_us=9) == 405_000


def test_each_trigger_is_shown_by_a_phase() -> None:
    whens = ({"call": 1}, {"record": 1}, {"checkpoint": 1}, {"phase": "emit"}, {"at": "0ms"})

    shown = [shown_by(made("pause_worker", subtask=1, when=when).when) for when in whens]

    assert shown == ["call", "accept", "commit.post", "emit", "accept"]
