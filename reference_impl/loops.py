"""Event loops: the only module that builds them, and the operator's one door to time.

Answers to the thread of Flink's mailbox and to its `ProcessingTimeService`'s clock. Invariant: nothing in
`reference_impl` reads a clock but through the loop that it was handed, so a loop with another clock
(`reference_impl.virtual_loop`) is another time for everything at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic_ns
from typing import TypeVar

from reference_impl.virtual_loop import Pick, VirtualLoop

__all__ = ["CANCELLATION_LIMIT_S", "NS_PER_MS", "clock_of", "now_ms", "real_loop", "virtual_loop"]

_Loop = TypeVar("_Loop", bound=asyncio.AbstractEventLoop)

NS_PER_MS = 1_000_000

CANCELLATION_LIMIT_S = 5.0
"""How long a closing loop waits for the tasks that it cancelled; one that does not end is left."""


@contextmanager
def real_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An asyncio loop on real time; on leaving, leftover tasks are cancelled and the loop is closed."""
    with _closing(asyncio.new_event_loop()) as loop:
        yield loop


@contextmanager
def virtual_loop(*, start_ms: int = 0, pick: Pick | None = None) -> Iterator[VirtualLoop]:
    """A loop on virtual time, which passes only while everything waits; `pick` chooses what runs next."""
    with _closing(VirtualLoop(start_ms=start_ms, pick=pick)) as loop:
        yield loop


def clock_of(loop: asyncio.AbstractEventLoop) -> Callable[[], int]:
    """The loop's time in nanoseconds, to be asked often: without the detour by way of floating point."""
    return loop.now_ns if isinstance(loop, VirtualLoop) else monotonic_ns


def now_ms(loop: asyncio.AbstractEventLoop) -> int:
    """The loop's time in whole milliseconds."""
    return clock_of(loop)() // NS_PER_MS


@contextmanager
def _closing(loop: _Loop) -> Iterator[_Loop]:
    try:
        yield loop
    finally:
        try:
            _cancel_leftovers(loop)
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()


def _cancel_leftovers(loop: asyncio.AbstractEventLoop) -> None:
    tasks = list(asyncio.all_tasks(loop))
    if not tasks:
        return
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.wait(tasks, timeout=CANCELLATION_LIMIT_S))
