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

from reference_impl.fine_selector import fine_selector
from reference_impl.virtual_loop import Handle, Pick, VirtualLoop

__all__ = [
    "CANCELLATION_LIMIT_S",
    "NS_PER_MS",
    "call_at_ns",
    "clock_of",
    "now_ms",
    "real_loop",
    "virtual_loop",
]

NS_PER_MS = 1_000_000

CANCELLATION_LIMIT_S = 5.0
"""How long a closing loop waits for the tasks that it cancelled; one that does not end is left."""


@contextmanager
def real_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An asyncio loop on real time; on leaving, leftover tasks are cancelled and the loop is closed."""
    loop = asyncio.SelectorEventLoop(fine_selector())
    try:
        yield loop
    finally:
        try:
            _cancel_leftovers(loop)
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()


@contextmanager
def virtual_loop(*, start_ms: int = 0, pick: Pick | None = None) -> Iterator[VirtualLoop]:
    """A loop on virtual time, which passes only while everything waits; `pick` chooses what runs next."""
    loop = VirtualLoop(start_ms=start_ms, pick=pick)
    try:
        yield loop
    finally:
        try:
            if loop.had_tasks:
                _cancel_leftovers(loop)
        finally:
            loop.close()


def clock_of(loop: asyncio.AbstractEventLoop) -> Callable[[], int]:
    """The loop's time in nanoseconds, to be asked often: without the detour by way of floating point."""
    return loop.now_ns if isinstance(loop, VirtualLoop) else monotonic_ns


def call_at_ns(
    loop: asyncio.AbstractEventLoop, instant_ns: int, callback: Callable[[], None]
) -> asyncio.Handle | Handle:
    """Run `callback` when the loop's time is `instant_ns`."""
    if isinstance(loop, VirtualLoop):
        return loop.call_at_ms(instant_ns // NS_PER_MS, callback)
    return loop.call_at(instant_ns / 1_000_000_000, callback)


def now_ms(loop: asyncio.AbstractEventLoop) -> int:
    """The loop's time in whole milliseconds."""
    return clock_of(loop)() // NS_PER_MS


def _cancel_leftovers(loop: asyncio.AbstractEventLoop) -> None:
    tasks = list(asyncio.all_tasks(loop))
    if not tasks:
        return
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.wait(tasks, timeout=CANCELLATION_LIMIT_S))
