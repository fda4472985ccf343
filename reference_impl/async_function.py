"""The user's function: one asynchronous call for each record, answered through a handle.

Answers to Flink's `AsyncFunction`. Three forms: this one, with a handle that any thread may use; an `async def`
(`from_coroutine`); a blocking function on threads (`from_blocking`). Invariant: `invoke` and `timeout` run on the
task's thread, one at a time (A6).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any, Literal, Protocol

from reference_impl.errors import CallbackFailed, CallTimedOut
from reference_impl.result import ResultHandle

__all__ = [
    "AsyncFunction",
    "Closing",
    "OnTimeout",
    "Opening",
    "answer_timeout",
    "answer_with",
    "ask_for_substitute",
    "begin_call",
    "close_function",
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
