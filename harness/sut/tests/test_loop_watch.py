"""The loop watch tells of the function under test, at its line, and of nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from harness.history.notes import AttemptNote, LoopBlocked
from harness.sut.loop_watch import LoopWatch, code_of
from harness.system.clock import Deadline, wait_until
from reference_impl.mailbox.loops import real_loop

BLOCKS_S = 0.2
TRIES_MAX = 50


class Notes:
    """A journal in memory. Mutable."""

    def __init__(self) -> None:
        self.stops: list[tuple[float, str]] = []

    def note(self, note: AttemptNote) -> None:
        if isinstance(note, LoopBlocked):
            self.stops.append((note.ms, note.where))


async def blocking() -> None:
    wait_until(lambda: False, deadline=Deadline(BLOCKS_S))


async def awaiting() -> None:
    await asyncio.sleep(BLOCKS_S)


def watched(
    run: Callable[[], Coroutine[Any, Any, None]], *, under_test: Callable[..., Any]
) -> list[tuple[float, str]]:
    notes = Notes()
    with real_loop() as loop:
        watch = LoopWatch(loop, notes, function=code_of(under_test))

        async def life() -> None:
            await run()
            await asyncio.sleep(0.03)  # the beat that finds out

        with watch.watching():
            loop.run_until_complete(life())
    return notes.stops


def test_a_blocking_function_is_told_with_its_line_and_its_time() -> None:
    """Late samples are ignored by design, so a busy machine may have to try again."""
    tries = (watched(blocking, under_test=blocking) for _ in range(TRIES_MAX))
    [(ms, where)] = next(stops for stops in tries if stops)

    assert ms >= BLOCKS_S * 1000 / 2
    assert where.startswith("blocking (test_loop_watch.py:")


def test_a_function_that_awaits_is_not_told() -> None:
    assert watched(awaiting, under_test=awaiting) == []


def test_somebody_else_who_blocks_the_loop_is_not_told() -> None:
    assert watched(blocking, under_test=awaiting) == []
