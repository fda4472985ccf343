"""Drawn situations: the same for a seed, of every kind, and bearable."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from harness.sim.situation import PHASES
from harness.sim.situation_drawing import draw_situation, livable

DRAWN = [draw_situation(seed) for seed in range(400)]


def test_equal_seeds_are_equal_situations() -> None:
    assert [draw_situation(seed) for seed in range(20)] == DRAWN[:20]


def test_every_choice_is_drawn() -> None:
    assert {one.checkpoints.sink for one in DRAWN} == {"rollback", "append", "atomic", "two-phase"}
    assert {(one.checkpoints.style, one.operator.back_pressure) for one in DRAWN} == {
        ("barriers", "soft"),
        ("mail", "soft"),
        ("mail", "hard"),
    }
    assert {(one.operator.on_timeout, one.operator.on_error) for one in DRAWN} >= {
        ("fail", "fail"),
        ("answer", "dead-letter"),
        ("dead-letter", "fail"),
    }
    assert {one.stream.watermarks for one in DRAWN} == {"rising", "repeating", "falling"}
    assert {one.effects for one in DRAWN} == {None, "records", "outputs"}


def test_every_disturbance_and_every_phase_of_a_crash_is_drawn() -> None:
    kinds = {one.kind for one in chain.from_iterable(drawn.disturbances for drawn in DRAWN)}
    phases = {crash.phase for crash in chain.from_iterable(drawn.crashes for drawn in DRAWN)}

    assert kinds == {"latency", "blackhole", "down", "reset", "errors", "lock", "stall", "clock-jump"}
    assert phases == set(PHASES)
    assert any(drawn.zombies for drawn in DRAWN)


def test_what_is_drawn_is_livable_already() -> None:
    assert [livable(drawn) for drawn in DRAWN] == DRAWN


def test_a_change_that_nobody_could_live_with_is_mended() -> None:
    retried = next(drawn for drawn in DRAWN if drawn.operator.max_tries > 1)

    mended = livable(replace(retried, operator=replace(retried.operator, timeout_ms=0)))

    assert mended.operator.max_tries == 1


def test_nothing_fails_the_task_where_all_output_stays() -> None:
    appended = [drawn for drawn in DRAWN if drawn.checkpoints.sink == "append"]

    assert appended
    for drawn in appended:
        assert not drawn.crashes
        assert not drawn.zombies
        assert drawn.operator.on_error == "dead-letter"


def test_bad_luck_is_rare_where_it_fails_the_task() -> None:
    failing = [drawn for drawn in DRAWN if drawn.operator.timeout_ms and drawn.operator.on_timeout == "fail"]

    assert failing
    for drawn in failing:
        lookups = drawn.lookups
        assert max(lookups.slow_share, lookups.error_share, lookups.loss_share) <= 3
