"""The user's function as an `async def`: one task of the loop for each call.

Answers to the door of PyFlink's async functions. Invariant: a lifted coroutine always ends its handle, however it
ends itself: by returning, raising, or being cancelled before its first step (B9).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from reference_impl.async_function import AsyncFunction, OnTimeout, answer_timeout, answer_with
from reference_impl.result import ResultHandle

__all__ = ["Lookup", "from_coroutine"]

Lookup = Callable[[Any], Coroutine[Any, Any, list[Any]]]


def from_coroutine(
    fn: Lookup,
    *,
    loop: asyncio.AbstractEventLoop,
    on_timeout: OnTimeout = "fail",
) -> AsyncFunction:
    """Lift `async def fn(value) -> list`: one task of `loop` for each record.

    On a record's timeout the handle is failed, or completed with `on_timeout(value)`; then the record's task
    is cancelled, for nobody will hear what it returns. Cancelling frees what it holds, no more: whether its
    request took effect is unknown.
    """
    return _LiftedCoroutine(fn=fn, loop=loop, on_timeout=on_timeout)


class _LiftedCoroutine:
    """Runs a task for each call. Mutable: it holds them, for the loop does so only weakly."""

    def __init__(self, *, fn: Lookup, loop: asyncio.AbstractEventLoop, on_timeout: OnTimeout) -> None:
        self._fn = fn
        self._loop = loop
        self._on_timeout = on_timeout
        self._running: dict[asyncio.Task[list[Any]], None] = {}
        self._latest: dict[object, asyncio.Task[list[Any]]] = {}
        """Each record's last attempt, to be cancelled by its timeout."""

    def invoke(self, value: Any, handle: ResultHandle) -> None:
        """Start the task of this call."""
        task = self._loop.create_task(self._fn(value))
        self._running[task] = None
        self._latest[handle.record_key] = task
        task.add_done_callback(partial(self._ended, handle))

    def timeout(self, value: Any, handle: ResultHandle) -> None:
        """Answer for the task, then cancel it."""
        answer_timeout(self._on_timeout, value, handle)
        task = self._latest.get(handle.record_key)
        if task is not None:
            task.cancel()

    def close(self) -> None:
        """Cancel what still runs."""
        for task in list(self._running):
            task.cancel()

    def _ended(self, handle: ResultHandle, task: asyncio.Task[list[Any]]) -> None:
        """As a done callback and not inside the coroutine: one cancelled before its first step never runs."""
        del self._running[task]
        if self._latest.get(handle.record_key) is task:
            del self._latest[handle.record_key]
        answer_with(task, handle)
