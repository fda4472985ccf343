"""Dead letters: a record whose last try failed is written to a dead-letter table, and its task goes on.

Answers to a Flink side output for failed records. The call's failure becomes a result, so the operator emits it once,
in its place, and a checkpoint contains it. Invariant: after all its tries, a failed record either goes to the dead
letters or fails the task, never both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from harness.history.causes import cause_of
from harness.system.errors import SutError
from reference_impl.operator.functions import AsyncFunction, close_function, open_function
from reference_impl.operator.result import ResultHandle, Supplier


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """The result of record `id` whose lookup failed with `error`."""

    id: int
    error: str
    by: str | None = None
    """The fault or the part of the scenario that caused it, if one did."""


def is_dead_letter(results: Sequence[object]) -> bool:
    """Whether these results stand for a failure; the predicate of a retry strategy."""
    return bool(results) and type(results[0]) is DeadLetter


class DeadLetterFunction:
    """Wraps an `AsyncFunction` so that its failures become `DeadLetter` results."""

    def __init__(self, function: AsyncFunction) -> None:
        self.function = function

    def open(self) -> None:
        open_function(self.function)

    def close(self) -> None:
        close_function(self.function)

    def invoke(self, value: Any, handle: ResultHandle) -> None:
        self.function.invoke(value, _DeadLetterHandle(value.id, handle))

    def timeout(self, value: Any, handle: ResultHandle) -> None:
        self.function.timeout(value, _DeadLetterHandle(value.id, handle))


class DeadLetterTimeouts:
    """Wraps an `AsyncFunction` so that only its timeouts become `DeadLetter` results."""

    def __init__(self, function: AsyncFunction) -> None:
        self.function = function
        self.invoke = function.invoke

    def open(self) -> None:
        open_function(self.function)

    def close(self) -> None:
        close_function(self.function)

    def timeout(self, value: Any, handle: ResultHandle) -> None:
        self.function.timeout(value, _DeadLetterHandle(value.id, handle))


class _DeadLetterHandle:
    """Wraps a result handle so that `fail` completes it with a `DeadLetter`, except for a SutError."""

    __slots__ = ("_handle", "_id")

    def __init__(self, id_: int, handle: ResultHandle) -> None:
        self._id = id_
        self._handle = handle

    @property
    def record_key(self) -> object:
        return self._handle.record_key

    @property
    def done(self) -> bool:
        return self._handle.done

    def complete(self, results: Sequence[object]) -> None:
        self._handle.complete(results)

    def fail(self, error: BaseException) -> None:
        if isinstance(error, SutError):  # the function breaks the rules, which no scenario allows for
            self._handle.fail(error)
            return
        letter = DeadLetter(id=self._id, error=f"{type(error).__name__}: {error}", by=cause_of(error))
        self._handle.complete([letter])

    def supply(self, supplier: Supplier) -> None:
        self._handle.supply(supplier)
