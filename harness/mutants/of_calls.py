"""Defects of what becomes of a record whose call went wrong, at level sim.

Answers to a bare `except`, and to a record that is routed twice. Invariant: whatever the call did, only the policy
behind it differs from the honest one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Unpack

from harness.sut.dead_letter import DeadLetterFunction
from harness.sut.enrichment import Enriched
from reference_impl.async_function import AsyncFunction
from reference_impl.async_wait import AsyncWaitOperator
from reference_impl.async_wait_build import Mode, Parts
from reference_impl.mutants import swallows_errors
from reference_impl.result import ResultHandle

if TYPE_CHECKING:
    from harness.sim.attempt import Attempt

__all__ = ["build_quiet_operator", "failing_letters", "failing_too", "quiet_letters"]


def build_quiet_operator(*, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncWaitOperator:
    """An operator for which a failed lookup is an empty one."""
    return swallows_errors.build_operator(mode=mode, capacity=capacity, default=_nothing_known, **parts)


def _nothing_known(lookup: Any) -> list[Enriched]:
    return [Enriched(id=lookup.id, j=0, value=None)]


@cache
def failing_too(dead_letters: type[Any]) -> type[Any]:
    """`dead_letters`, which lets the task fail as well."""

    class DoubleRouting(dead_letters):  # type: ignore[misc]
        def route(self, handle: ResultHandle, lookup: Any, error: BaseException) -> None:
            super().route(_NoHandle(handle), lookup, error)
            handle.fail(error)

    return DoubleRouting


def failing_letters(honest: AsyncFunction, attempt: Attempt) -> AsyncFunction:
    """`honest`, whose dead letters fail the task as well; where it writes none, the honest one."""
    if not isinstance(honest, DeadLetterFunction):
        return honest
    return _Rerouted(honest.function, lambda value, handle: _FailsToo(value, handle, attempt))


def quiet_letters(honest: AsyncFunction, attempt: Attempt) -> AsyncFunction:
    """`honest`, whose dead letters are default values; where it writes none, the honest one."""
    del attempt
    if not isinstance(honest, DeadLetterFunction):
        return honest
    return _Rerouted(honest.function, _Quiet)


class _Rerouted:
    """`function`, whose failures go another way."""

    def __init__(self, function: AsyncFunction, way: Callable[[Any, ResultHandle], Any]) -> None:
        self._function = function
        self._way = way

    def invoke(self, value: Any, handle: ResultHandle) -> None:
        self._function.invoke(value, self._way(value, handle))

    def timeout(self, value: Any, handle: ResultHandle) -> None:
        self._function.timeout(value, self._way(value, handle))


class _Handle:
    """`handle`, with another end for a failure."""

    def __init__(self, value: Any, handle: ResultHandle) -> None:
        self._value = value
        self._handle = handle

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handle, name)


class _Quiet(_Handle):
    def fail(self, error: BaseException) -> None:
        del error
        self._handle.complete(_nothing_known(self._value))


class _FailsToo(_Handle):
    def __init__(self, value: Any, handle: ResultHandle, attempt: Attempt) -> None:
        super().__init__(value, handle)
        self._attempt = attempt

    def fail(self, error: BaseException) -> None:
        assert self._attempt.journal is not None, "an attempt that calls has a journal"
        self._attempt.journal.gives_up(id=self._value.id, error=f"{type(error).__name__}: {error}")
        self._handle.fail(error)


class _NoHandle:
    """`handle`, which nobody completes through it."""

    def __init__(self, handle: ResultHandle) -> None:
        self._handle = handle

    def complete(self, results: Any) -> None:
        """Not yet: the failure is the outcome."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handle, name)
