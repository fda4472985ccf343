"""The wall clock moves as a fault has it and is measured; a stalled loop is measured, not believed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from harness.faults.real.sites import AttemptSite, WallClock
from harness.faults.tests.entries import made
from harness.sut.tests.handles import Notes
from harness.system.clock import Deadline
from reference_impl.mailbox.loops import real_loop

MINUTE_MS = 60_000
NOT_EXACT_MS = 10_000.0
"""What passes between two readings on a busy machine, and far from a minute."""
LIMIT_S = 60.0
NO_STORE = cast("Any", None)
"""What a clock has no business with."""


def turned(loop: asyncio.AbstractEventLoop, until: Callable[[], bool]) -> None:
    """Turn the loop until something has come about."""
    deadline = Deadline(LIMIT_S)
    while not until():
        assert not deadline.passed, "the loop's callback has not come"
        loop.run_until_complete(_one_turn())


async def _one_turn() -> None:
    await asyncio.sleep(0)


def jump(clock: WallClock, notes: Notes, loop: asyncio.AbstractEventLoop, **how: str) -> None:
    fault = made("clock_jump", **{"shift": "1m", **how})
    fault.act_in_attempt(AttemptSite(journal=notes, loop=loop, clock=clock, store=NO_STORE))


def test_a_clock_that_nobody_touched_keeps_its_distance() -> None:
    assert WallClock().offset_ms() == 0


@pytest.mark.parametrize("shift_ms", [MINUTE_MS, -MINUTE_MS])
def test_a_jump_moves_the_clock_at_once_and_for_good(shift_ms: int) -> None:
    made(
        "clock_jump", shift="1m"
    )  # the first fault of a process builds the model of all kinds, which takes 40 ms
    clock, notes = WallClock(), Notes()
    with real_loop() as loop:
        before_ns = clock.now_ns()
        jump(clock, notes, loop, shift=f"{shift_ms}ms")

    assert (clock.now_ns() - before_ns) / 1e6 == pytest.approx(shift_ms, abs=NOT_EXACT_MS)
    (measured,) = notes.measures
    assert measured == ("f", "offset", {"when": "begin", "before_ms": 0.0, "after_ms": float(shift_ms)})


def test_a_jump_that_is_over_is_set_back_and_measured_again() -> None:
    clock, notes = WallClock(), Notes()
    with real_loop() as loop:
        jump(clock, notes, loop, **{"for": "10ms"})
        turned(loop, lambda: len(notes.measures) == 2)

    assert clock.offset_ms() == 0
    assert [facts["when"] for _, _, facts in notes.measures] == ["begin", "end"]
    assert notes.measures[1][2] == {"when": "end", "before_ms": float(MINUTE_MS), "after_ms": 0.0}


def test_a_frozen_clock_stands_still() -> None:
    clock, notes = WallClock(), Notes()
    with real_loop() as loop:
        jump(clock, notes, loop, how="freeze", **{"for": "1m"})
        readings = {clock.now_ns() for _ in range(1000)}

    assert len(readings) == 1


def test_a_smeared_clock_gets_there_bit_by_bit() -> None:
    slow, clock, notes = WallClock(), WallClock(), Notes()
    with real_loop() as loop:
        jump(slow, Notes(), loop, how="smear", shift="1s", **{"for": "1m"})
        at_first_ms = slow.offset_ms()
        jump(clock, notes, loop, how="smear", shift="1s", **{"for": "20ms"})
        turned(loop, lambda: len(notes.measures) == 2)

    assert at_first_ms < 1000
    assert notes.measures[-1][2]["before_ms"] == pytest.approx(1000, abs=1)


def test_a_stalled_loop_says_how_late_it_was() -> None:
    notes = Notes()
    with real_loop() as loop:
        stall = made("loop_stall", subtask=0, **{"for": "30ms"})
        stall.act_in_attempt(AttemptSite(journal=notes, loop=loop, clock=WallClock(), store=NO_STORE))
        assert notes.measures == []  # nobody can tell before the loop turns again
        turned(loop, lambda: bool(notes.measures))

    assert notes.acts == [("f", "stall", {"asked_ms": 30})]
    ((_, what, facts),) = notes.measures
    assert what == "loop lag"
    assert facts["lag_ms"] >= 30
