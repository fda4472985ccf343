"""Defects of calls: how often one is made, how often it counts, and what becomes of a record whose call went wrong.

Answers to a handle without a guard, to a bare `except`, and to a record that is routed twice. Invariant: whatever the
call did, only what is made of its outcome differs from the honest one, or what a call that writes does to its row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

from harness.defects.defect import EVERY_LEVEL, Defect
from harness.defects.pools import cancelling_nothing
from harness.defects.where import (
    both,
    calls_fail,
    calls_once,
    has_dead_letters,
    has_no_timeout,
    retries,
    timeouts_cancel_nothing,
)
from harness.sut.dead_letter import DeadLetterFunction
from harness.sut.enrichment import Enriched
from harness.sut.variant import HasJournal, Variant
from reference_impl.mutants import BUILDERS, swallows_errors
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.build import Mode, Parts
from reference_impl.operator.functions import AsyncFunction
from reference_impl.operator.result import ResultHandle

__all__ = [
    "OF_CALLS",
    "build_quiet_operator",
    "failing_letters",
    "quiet_letters",
]


def build_quiet_operator(*, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncWaitOperator:
    """An operator for which a failed lookup is an empty one."""
    return swallows_errors.build_operator(mode=mode, capacity=capacity, default=_nothing_known, **parts)


def _nothing_known(lookup: Any) -> list[Enriched]:
    return [Enriched(id=lookup.id, j=0, value=None)]


def failing_letters(honest: AsyncFunction, attempt: HasJournal) -> AsyncFunction:
    """`honest`, whose dead letters fail the task as well; where it writes none, the honest one."""
    if not isinstance(honest, DeadLetterFunction):
        return honest
    return _Rerouted(honest.function, lambda value, handle: _FailsToo(value, handle, attempt))


def quiet_letters(honest: AsyncFunction, attempt: HasJournal) -> AsyncFunction:
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
    def __init__(self, value: Any, handle: ResultHandle, attempt: HasJournal) -> None:
        super().__init__(value, handle)
        self._attempt = attempt

    def fail(self, error: BaseException) -> None:
        self._attempt.journal.dead(id=self._value.id)
        self._handle.fail(error)


OF_CALLS = (
    Defect(
        number=6,
        name="loses-completions",
        about="of a thousand calls that go well, three are never heard of again",
        mirrors="FLINK-40456",
        convicted_by=("V16",),
        variant=Variant(build_operator=BUILDERS["loses-completions"]),
        where="no timeout",
        applies=has_no_timeout,
    ),
    Defect(
        number=7,
        name="settles-twice",
        about="a completion is delivered twice, and counts twice",
        mirrors="a handle without a guard",
        convicted_by=("V8", "V15"),
        variant=Variant(build_operator=BUILDERS["settles-twice"]),
        where="calls are made once",
        applies=calls_once,
        scenario="latency-spike-ordered",
        levels=EVERY_LEVEL,
    ),
    Defect(
        number=10,
        name="retries-after-timeout",
        about="a record that has timed out is asked for again",
        mirrors="FLINK-30477, FLINK-38082",
        convicted_by=("V15",),
        variant=Variant(build_operator=BUILDERS["retries-after-timeout"]),
        where="calls are made again; one ends with an error",
        applies=both(retries, calls_fail),
        scenario="timeout-and-retry",
        levels=EVERY_LEVEL,
    ),
    Defect(
        number=11,
        name="late-results",
        about="a result that comes after the record's timeout leaves too",
        mirrors="a timeout that shuts no door",
        convicted_by=("V8", "V15"),
        variant=Variant(build_operator=BUILDERS["late-results"], pool=cancelling_nothing),
        where="calls are made once; a timeout is answered, and cancels nothing",
        applies=both(calls_once, timeouts_cancel_nothing),
        scenario="loop-stall",
        levels=EVERY_LEVEL,
    ),
    Defect(
        number=20,
        name="swallows-errors",
        about="a call's error is swallowed, and a default value leaves",
        mirrors="a bare except",
        convicted_by=("V20", "V8"),
        variant=Variant(build_operator=build_quiet_operator, function=quiet_letters),
        where="calls are made once; one ends with an error",
        applies=both(calls_once, calls_fail),
        scenario="schema-change",
        levels=EVERY_LEVEL,
    ),
    Defect(
        number=29,
        name="dead-letter-and-failure",
        about="a record goes to the dead letters, and fails its task as well",
        mirrors="double routing",
        convicted_by=("V20",),
        variant=Variant(function=failing_letters),
        where="there are dead letters; a call ends with an error",
        applies=both(has_dead_letters, calls_fail),
        scenario="poison-raises",
        levels=EVERY_LEVEL,
    ),
)
