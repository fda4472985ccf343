"""Event loops: the only module that builds them, and the operator's one door to time.

Answers to the thread of Flink's mailbox and to its `ProcessingTimeService`'s clock. Invariant: nothing in
`reference_impl` reads a clock but through the loop that it was handed, so a loop with another clock is
another time for everything at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["CANCELLATION_LIMIT_S", "now_ms", "real_loop"]

CANCELLATION_LIMIT_S = 5.0
"""How long a closing loop waits for the tasks that it cancelled; one that does not end is left."""


@contextmanager
def real_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An asyncio loop on real time; on leaving, leftover tasks are cancelled and the loop is closed."""
    loop = asyncio.new_event_loop()
    try:
        yield loop
    finally:
        try:
            _cancel_leftovers(loop)
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()


def now_ms(loop: asyncio.AbstractEventLoop) -> int:
    """The loop's time in whole milliseconds.

    By way of microseconds, for 1.001 s times 1000 is 1000.9999... in floating point.
    """
    return round(loop.time() * 1_000_000) // 1000


def _cancel_leftovers(loop: asyncio.AbstractEventLoop) -> None:
    tasks = list(asyncio.all_tasks(loop))
    if not tasks:
        return
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.wait(tasks, timeout=CANCELLATION_LIMIT_S))
