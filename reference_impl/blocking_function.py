"""The user's function as a blocking one, on a bounded pool of threads.

Answers to the executor that Flink's users put behind `asyncInvoke` where their client blocks. Invariant: `fn` runs
in at most `threads` threads at once and nowhere near the task's; its outcome enters as any foreign thread's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from reference_impl.async_function import AsyncFunction, OnTimeout, answer_timeout, answer_with
from reference_impl.result import ResultHandle
from reference_impl.virtual_loop import VirtualLoop

__all__ = ["from_blocking"]


def from_blocking(
    fn: Callable[[Any], list[Any]],
    *,
    loop: asyncio.AbstractEventLoop,
    threads: int,
    on_timeout: OnTimeout = "fail",
) -> AsyncFunction:
    """Lift `fn(value) -> list`: one call of `fn` for each record, in at most `threads` threads.

    A record's timeout is answered at once, but its call runs on and keeps its thread: a thread cannot be
    cancelled. Calls that have not begun wait in the pool, at most as many as the operator has in flight.
    """
    if type(threads) is not int or threads < 1:
        raise ValueError(f"threads is {threads!r}; give a whole number, 1 or more")
    if isinstance(loop, VirtualLoop):
        raise ValueError(  # noqa: TRY004 - the loop is of the right type, and still no use
            "a blocking function takes real time; use a real loop, or an `async def`",
        )
    return _LiftedBlocking(fn=fn, threads=threads, on_timeout=on_timeout)


class _LiftedBlocking:
    """Gives each call to the pool. Mutable."""

    def __init__(self, *, fn: Callable[[Any], list[Any]], threads: int, on_timeout: OnTimeout) -> None:
        self._fn = fn
        self._on_timeout = on_timeout
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="lookup")

    def invoke(self, value: Any, handle: ResultHandle) -> None:
        """Queue the call."""
        self._pool.submit(self._fn, value).add_done_callback(partial(answer_with, handle=handle))

    def timeout(self, value: Any, handle: ResultHandle) -> None:
        """Answer for the call, which runs on."""
        answer_timeout(self._on_timeout, value, handle)

    def close(self) -> None:
        """Drop what has not begun; what has, ends by itself and is not heard."""
        self._pool.shutdown(wait=False, cancel_futures=True)
