"""The user's function: one asynchronous call for each record, answered through a handle.

Answers to Flink's `AsyncFunction`. Three forms: this one, with a handle that any thread may use; an `async def`
(`from_coroutine`); a blocking function on threads (`from_blocking`). Invariant: `invoke` and `timeout` run on the
task's thread, one at a time (A6).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Literal, Protocol

from reference_impl.errors import CallbackFailed, CallTimedOut
from reference_impl.mailbox.loops import VirtualLoop
from reference_impl.operator.result import ResultHandle

__all__ = [
    "AsyncFunction",
    "Closing",
    "Lookup",
    "OnTimeout",
    "Opening",
    "answer_timeout",
    "answer_with",
    "ask_for_substitute",
    "begin_call",
    "close_function",
    "from_blocking",
    "from_coroutine",
    "open_function",
]


class AsyncFunction(Protocol):
    """What the operator calls; a class that names this as its parent inherits the default `timeout`."""

    def invoke(self, value: Any, handle: ResultHandle) -> None:
        """Begin the call for `value` and return; `handle` takes the outcome, at any time, from any thread."""

    def timeout(self, value: Any, handle: ResultHandle) -> None:  # noqa: ARG002 - an override's
        """No outcome came in time: give one. A handle left alone keeps its slot for ever (A46)."""
        handle.fail(CallTimedOut())


class Opening(Protocol):
    """An `AsyncFunction` that wants to know when it begins."""

    def open(self) -> None:
        """Acquire what the function needs; called once, before any record, restored ones included (A61)."""


class Closing(Protocol):
    """An `AsyncFunction` that wants to know when it is over."""

    def close(self) -> None:
        """Release what the function holds; called once, also after a failure (A69)."""


def open_function(function: AsyncFunction) -> None:
    """Tell it, if it is an `Opening`, that it begins."""
    if (begin := getattr(function, "open", None)) is not None:
        begin()


def close_function(function: AsyncFunction) -> None:
    """Tell it, if it is a `Closing`, that it is over."""
    if (end := getattr(function, "close", None)) is not None:
        end()


def begin_call(function: AsyncFunction, value: Any, handle: ResultHandle) -> None:
    """Call `invoke`; what it raises instead of giving it to the handle fails the task (A34)."""
    try:
        function.invoke(value, handle)
    except Exception as raised:
        raise CallbackFailed("invoke", value, raised) from raised


def ask_for_substitute(function: AsyncFunction, value: Any, handle: ResultHandle) -> None:
    """Call `timeout` (A43); what it raises fails the task (A47)."""
    try:
        function.timeout(value, handle)
    except Exception as raised:
        raise CallbackFailed("timeout", value, raised) from raised


OnTimeout = Literal["fail"] | Callable[[Any], list[Any]]
"""What a lifted function answers to a record's timeout: a failure, or what this makes of the value."""


def answer_timeout(on_timeout: OnTimeout, value: Any, handle: ResultHandle) -> None:
    """Give `handle` that answer."""
    if on_timeout == "fail":
        handle.fail(CallTimedOut())
    else:
        handle.complete(on_timeout(value))


def answer_with(call: asyncio.Future[list[Any]] | Future[list[Any]], handle: ResultHandle) -> None:
    """End `handle` as `call` ended: with its results, its error, its cancellation, or for want of a list."""
    try:
        error = call.exception()
    except (asyncio.CancelledError, CancelledError) as cancelled:
        error = cancelled
    if error is not None:
        handle.fail(error)
        return
    try:
        handle.complete(call.result())
    except TypeError as not_a_list:
        handle.fail(not_a_list)


def from_blocking(
    fn: Callable[[Any], list[Any]],
    *,
    loop: asyncio.AbstractEventLoop,
    threads: int,
    on_timeout: OnTimeout = "fail",
) -> AsyncFunction:
    """The user's function as a blocking one, on a bounded pool of threads.

    Lift `fn(value) -> list`: one call of `fn` for each record, in at most `threads` threads.

    A record's timeout is answered at once, but its call runs on and keeps its thread: a thread cannot be cancelled.
    Calls that have not begun wait in the pool, at most as many as the operator has in flight.

    Answers to the executor that Flink's users put behind `asyncInvoke` where their client blocks. Invariant: `fn` runs
    in at most `threads` threads at once and nowhere near the task's; its outcome enters as any foreign thread's.
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


Lookup = Callable[[Any], Coroutine[Any, Any, list[Any]]]


def from_coroutine(
    fn: Lookup,
    *,
    loop: asyncio.AbstractEventLoop,
    on_timeout: OnTimeout = "fail",
) -> AsyncFunction:
    """The user's function as an `async def`: one task of the loop for each call.

    Lift `async def fn(value) -> list`: one task of `loop` for each record.

    On a record's timeout the handle is failed, or completed with `on_timeout(value)`; then the record's task is
    cancelled, for nobody will hear what it returns. Cancelling frees what it holds, no more: whether its request took
    effect is unknown.

    Answers to the door of PyFlink's async functions. Invariant: a lifted coroutine always ends its handle, however it
    ends itself: by returning, raising, or being cancelled before its first step (B9).
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
