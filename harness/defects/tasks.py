"""Defects of the task around the operator: the clock that its timers count on.

Answers to `System.currentTimeMillis` where a monotonic clock belongs. Invariant: but for the clock, the task is the
honest one.
"""

from __future__ import annotations

from harness.defects.defect import EVERY_LEVEL, Defect
from harness.defects.where import both, clock_jumps, has_timeout
from harness.sut.variant import Variant
from reference_impl.mutants.wall_clock_timers import WallClockTimers

__all__ = ["OF_TASKS"]

OF_TASKS = (
    Defect(
        number=21,
        name="wall-clock-timers",
        about="timers count on the wall clock, which may be set",
        mirrors="System.currentTimeMillis where a monotonic clock belongs",
        convicted_by=("V15",),
        variant=Variant(timers=WallClockTimers),
        where="a timeout; the clock jumps",
        applies=both(clock_jumps, has_timeout),
        scenario="clock-jump",
        levels=EVERY_LEVEL,
    ),
)
