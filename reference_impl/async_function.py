"""The user's function: one asynchronous call for each record, answered through a handle.

Answers to Flink's `AsyncFunction` and to the `async def` door of PyFlink's. Invariant: `invoke` and
`timeout` run on the task's thread, one at a time (A6), and a lifted coroutine always ends its handle,
however it ends itself: by returning, raising, or being cancelled before its first step (B9).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Literal, Protocol, runtime_checkable

from reference_impl.errors import CallTimedOut
from reference_impl.result import ResultHandle

__all__ = ["AsyncFunction", "Closing", "from_coroutine"]


class AsyncFunction(Protocol):
    """What the operator calls; a class that names this as its parent inherits the default `timeout`."""

    def invoke(self, value: Any, handle: ResultHandle) -> None:
        """Begin the call for `value` and return; `handle` takes the outcome, at any time, from any thread."""

    def timeout(self, value: Any, handle: ResultHandle) -> None:  # noqa: ARG002 - an override's
        """No outcome came in time: give one. A handle left alone keeps its slot for ever (A46)."""
        handle.fail(CallTimedOut())


@runtime_checkable
class Closing(Protocol):
    """An `AsyncFunction` that wants to know when it is over."""

    def close(self) -> None:
        """Release what the function holds; called once, also after a failure (A69)."""


Lookup = Callable[[Any], Coroutine[Any, Any, list[Any]]]
OnTimeout = Literal["fail"] | Callable[[Any], list[Any]]


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
    """Runs a task for each record. Mutable: it holds them, for the loop does so only weakly."""

    def __init__(self, *, fn: Lookup, loop: asyncio.AbstractEventLoop, on_timeout: OnTimeout) -> None:
        self._fn = fn
        self._loop = loop
        self._on_timeout = on_timeout
        self._running: dict[ResultHandle, asyncio.Task[list[Any]]] = {}

    def invoke(self, value: Any, handle: ResultHandle) -> None:
        """Start the record's task."""
        task = self._loop.create_task(self._fn(value))
        self._running[handle] = task
        task.add_done_callback(partial(self._ended, handle))

    def timeout(self, value: Any, handle: ResultHandle) -> None:
        """Answer for the task, then cancel it."""
        if self._on_timeout == "fail":
            handle.fail(CallTimedOut())
        else:
            handle.complete(self._on_timeout(value))
        task = self._running.get(handle)
        if task is not None:
            task.cancel()

    def close(self) -> None:
        """Cancel what still runs."""
        for task in list(self._running.values()):
            task.cancel()

    def _ended(self, handle: ResultHandle, task: asyncio.Task[list[Any]]) -> None:
        """As a done callback and not inside the coroutine: one cancelled before its first step never runs."""
        del self._running[handle]
        if task.cancelled():
            handle.fail(asyncio.CancelledError())
            return
        error = task.exception()
        if error is not None:
            handle.fail(error)
            return
        try:
            handle.complete(task.result())
        except TypeError as not_a_list:
            handle.fail(not_a_list)
