"""The user's function: it begins one asynchronous call for each record and reports the outcome to a handle.

Answers to Flink's `AsyncFunction`. There are three forms: a class with `invoke`, whose handle any thread may
use; an `async def` (`from_coroutine`); a blocking function that runs on threads (`from_blocking`). Invariant:
`invoke` and `timeout` run on the task's thread, one at a time (A6).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Generic, Literal, Protocol, TypeVar

from reference_impl.errors import CallbackFailed, CallTimedOut
from reference_impl.mailbox.loops import VirtualLoop
from reference_impl.operator.result import ResultHandle


class AsyncFunction(Protocol):
    """The function that the operator calls; a subclass inherits the default `timeout`, which fails the record."""

    def invoke(self, value: Any, handle: ResultHandle) -> None:
        """Begin the call and return. `handle` accepts the outcome at any time, from any thread."""

    def timeout(self, value: Any, handle: ResultHandle) -> None:  # noqa: ARG002 - for overrides
        """Report an outcome in place of the late call. If none is reported, the slot is never freed (A46)."""
        handle.fail(CallTimedOut())


def open_function(function: AsyncFunction) -> None:
    """Call `function.open` if it exists."""
    if (begin := getattr(function, "open", None)) is not None:
        begin()


def close_function(function: AsyncFunction) -> None:
    """Call `function.close` if it exists."""
    if (end := getattr(function, "close", None)) is not None:
        end()


def begin_call(function: AsyncFunction, value: object, handle: ResultHandle) -> None:
    """Call `invoke`; an exception that it raises fails the task (A34)."""
    try:
        function.invoke(value, handle)
    except Exception as raised:
        raise CallbackFailed("invoke", value, raised) from raised


def ask_for_substitute(function: AsyncFunction, value: object, handle: ResultHandle) -> None:
    """Call `timeout` (A43); an exception that it raises fails the task (A47)."""
    try:
        function.timeout(value, handle)
    except Exception as raised:
        raise CallbackFailed("timeout", value, raised) from raised


V = TypeVar("V")
R = TypeVar("R")
OnTimeout = Literal["fail"] | Callable[[Any], list[Any]]
"""What a wrapped function does on a record's timeout: "fail", or complete with the results of this callable."""


def answer_with(call: asyncio.Future[list[R]] | Future[list[R]], handle: ResultHandle) -> None:
    """Report the outcome of `call`: its results, its error, its cancellation, or that its results are no list."""
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
    fn: Callable[[V], list[R]],
    *,
    loop: asyncio.AbstractEventLoop,
    threads: int,
    on_timeout: OnTimeout = "fail",
) -> AsyncFunction:
    """An `AsyncFunction` that runs the blocking `fn(value) -> list` for each record, on at most `threads` threads.

    On a record's timeout the handle gets an outcome at once, but the call goes on and keeps its thread: a
    thread cannot be cancelled. Calls that wait for a thread are queued in the pool, at most as many as the
    operator has in flight.

    Answers to the executor that Flink users put behind `asyncInvoke` for a blocking client. Invariant: `fn`
    never runs on the task's thread.
    """
    if type(threads) is not int or threads < 1:
        raise ValueError(f"threads is {threads!r}; give a whole number, 1 or more")
    if isinstance(loop, VirtualLoop):
        raise ValueError(  # noqa: TRY004 - a loop of the right type that cannot be used here
            "a blocking function takes real time; use a real loop, or an `async def`",
        )
    return _LiftedBlocking(fn=fn, threads=threads, on_timeout=on_timeout)


class AnswersTimeouts:
    """Common part of wrapped functions: what they do on a record's timeout."""

    _on_timeout: OnTimeout

    def timeout(self, value: object, handle: ResultHandle) -> None:
        """Report to `handle` what `on_timeout` says."""
        if self._on_timeout == "fail":
            handle.fail(CallTimedOut())
        else:
            handle.complete(self._on_timeout(value))


class _LiftedBlocking(AnswersTimeouts, Generic[V, R]):
    """Submits each call to a thread pool. Mutable."""

    def __init__(self, *, fn: Callable[[V], list[R]], threads: int, on_timeout: OnTimeout) -> None:
        self._fn = fn
        self._on_timeout = on_timeout
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="lookup")

    def invoke(self, value: V, handle: ResultHandle) -> None:
        self._pool.submit(self._fn, value).add_done_callback(partial(answer_with, handle=handle))

    def close(self) -> None:
        """Drop calls that have not begun; running ones end by themselves, and their outcome is ignored."""
        self._pool.shutdown(wait=False, cancel_futures=True)


Lookup = Callable[[Any], Coroutine[Any, Any, list[Any]]]


def from_coroutine(
    fn: Lookup,
    *,
    loop: asyncio.AbstractEventLoop,
    on_timeout: OnTimeout = "fail",
) -> AsyncFunction:
    """An `AsyncFunction` that runs `async def fn(value) -> list` for each record, as a task of `loop`.

    On a record's timeout the handle is failed, or completed with `on_timeout(value)`; then the task is
    cancelled. Cancelling releases what the task holds; whether its request took effect is unknown.

    Answers to PyFlink's async functions. Invariant: the handle always gets an outcome, whether the coroutine
    returns, raises, or is cancelled before its first step (B9).
    """
    return _LiftedCoroutine(fn=fn, loop=loop, on_timeout=on_timeout)


class _LiftedCoroutine(AnswersTimeouts):
    """Starts a task for each call. Mutable; it keeps references, since the loop refers to its tasks only weakly."""

    def __init__(self, *, fn: Lookup, loop: asyncio.AbstractEventLoop, on_timeout: OnTimeout) -> None:
        self._fn = fn
        self._loop = loop
        self._on_timeout = on_timeout
        self._running: dict[asyncio.Task[list[object]], None] = {}
        self._latest: dict[object, asyncio.Task[list[object]]] = {}
        """The task of each record's last attempt, which the record's timeout cancels."""

    def invoke(self, value: object, handle: ResultHandle) -> None:
        task = self._loop.create_task(self._fn(value))
        self._running[task] = None
        self._latest[handle.record_key] = task
        task.add_done_callback(partial(self._ended, handle))

    def timeout(self, value: object, handle: ResultHandle) -> None:
        """Report an outcome, then cancel the task."""
        super().timeout(value, handle)
        task = self._latest.get(handle.record_key)
        if task is not None:
            task.cancel()

    def close(self) -> None:
        for task in list(self._running):
            task.cancel()

    def _ended(self, handle: ResultHandle, task: asyncio.Task[list[object]]) -> None:
        """A done callback, since a coroutine that is cancelled before its first step runs no code of its own."""
        del self._running[task]
        if self._latest.get(handle.record_key) is task:
            del self._latest[handle.record_key]
        answer_with(task, handle)
