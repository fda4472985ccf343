"""A simulation leaves the thread as it found it."""

from __future__ import annotations

import asyncio

import pytest

from harness.sim.situation_drawing import draw_situation
from harness.sim.situation_run import simulate


@pytest.mark.parametrize("seed", range(1, 6))
def test_no_loop_is_left_running_by_a_simulation_whose_attempts_were_killed(seed: int) -> None:
    simulate(draw_situation(seed), seed=seed)

    assert asyncio._get_running_loop() is None
