"""Defects of calls: how often one is made, how often its result counts, and how an error is treated.

Answers to a handle without a guard, to a bare `except`, and to a record that is routed twice. Invariant: each entry
differs from the reference in what becomes of a call's outcome, and in nothing before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from threading import get_ident
from typing import Any, Unpack, cast
from zlib import crc32

from harness.history.event import Dead
from harness.sut.defects.defect import NEVER, SIM_ONLY, Defect, both, calls_fail, calls_once
from harness.sut.defects.twelve import RETRIES_AFTER_TIMEOUT, SETTLES_TWICE, OperatorOfSettlements, building
from harness.sut.function_under_test import DeadLetterFunction, Enriched
from harness.sut.variant import HasJournal, Variant
from reference_impl.elements import Record
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.build import Mode, Parts, build_operator, operator_around, queue_for
from reference_impl.operator.functions import AsyncFunction, close_function, open_function
from reference_impl.operator.result import Ending, ResultHandle, Settlement, Supplier
from tools.defects.pools import cancelling_nothing
from tools.defects.where import (
    answers_at_timeouts,
    has_dead_letters,
    has_no_timeout,
    substitutes,
    timeouts_cancel_nothing,
)


def three_in_a_thousand(value: Any) -> bool:
    """Whether the completion of `value`'s call is lost: by a checksum, so it is the same in each attempt."""
    return crc32(repr(value).encode()) % 1000 < 3  # noqa: PLR2004 - as the name says


class _DeafHandle:
    """A handle that passes on failures only."""

    def __init__(self, handle: ResultHandle) -> None:
        self._handle = handle
        self.fail = handle.fail

    @property
    def record_key(self) -> object:
        return self._handle.record_key

    @property
    def done(self) -> bool:
        return self._handle.done

    def complete(self, results: Sequence[Any]) -> None:
        """Lost."""

    def supply(self, supplier: Supplier) -> None:
        """Lost."""


class _LosingFunction:
    """`function`, where the completions that `is_lost` chooses do not reach the operator."""

    def __init__(self, function: AsyncFunction, is_lost: Callable[[Any], bool]) -> None:
        self._function = function
        self._is_lost = is_lost
        self.timeout = function.timeout

    def invoke(self, value: Any, handle: ResultHandle) -> None:
        self._function.invoke(value, _DeafHandle(handle) if self._is_lost(value) else handle)

    def open(self) -> None:
        open_function(self._function)

    def close(self) -> None:
        close_function(self._function)


def build_losing_operator(
    *,
    mode: Mode,
    capacity: int,
    is_lost: Callable[[Any], bool] = three_in_a_thousand,
    **parts: Unpack[Parts],
) -> AsyncWaitOperator:
    """An operator that loses some completions; without a timeout their records keep their slots for ever."""
    parts["function"] = _LosingFunction(parts["function"], is_lost)
    return build_operator(mode=mode, capacity=capacity, **parts)


class _SettledLate(Settlement):
    def complete(self, results: Sequence[Any]) -> None:
        if self.outcome is not None and self.timed_out:
            self.post(partial(self._settle_late, results), "settle a record late")
        super().complete(results)

    def _settle_late(self, results: Sequence[Any]) -> None:
        if (probe := self.owner.probe) is not None:
            probe.settled(self.element, attempt=1, ending=Ending.OK, final=True, results=results)
        for value in results:
            self.owner.emit(Record(value=value, timestamp=self.element.timestamp))


class _EmitsLateResults(OperatorOfSettlements):
    """Emits a late result behind the timeout's substitute (A36, A45); only a call that goes on can be late."""

    settlement = _SettledLate


class _SettledBeside(Settlement):
    def time_out(self) -> None:
        if self.outcome is None or self.results is not None or self.owner.closed:
            super().time_out()
            return
        beside = _SettledLate(owner=self.owner, element=self.element, outcome=(), timed_out=True)
        self.owner.time_out(self.element.value, beside)


class _SubstitutesBesideAnswers(OperatorOfSettlements):
    """Emits the substitute too, if the answer has been accepted and its mail has not run yet (A43)."""

    settlement = _SettledBeside


Default = Callable[[Any], Sequence[Any]]
"""The results that leave for a value whose call failed."""


class _SettledQuietly(Settlement):
    def fail(self, error: BaseException) -> None:
        if get_ident() != self.owner.thread:
            self.post(partial(self.fail, error), "error from a foreign thread")
        elif self.outcome is None and not self.owner.closed:
            self.outcome = tuple(cast("_QuietOperator", self.owner).default(self.element.value))
            self.tell(Ending.FAIL, error=error)
            self.post(self._answer, "settle a failed record with the default")

    def _answer(self) -> None:
        self.complete_with(self.outcome or ())
        self.owner.emit_completed()


class _QuietOperator(OperatorOfSettlements):
    """Goes on after a failed call as if nothing had happened (A41)."""

    settlement = _SettledQuietly
    default: Default


def _nothing_known(lookup: Any) -> list[Enriched]:
    return [Enriched(id=lookup.id, j=0, value=None)]


def build_quiet_operator(
    *, mode: Mode, capacity: int, default: Default = _nothing_known, **parts: Unpack[Parts]
) -> AsyncWaitOperator:
    """An operator that answers a failed call with `default` of its value: of a lookup, that it found nothing."""
    operator = operator_around(queue_for(mode, capacity, parts.get("key_of")), kind=_QuietOperator, **parts)
    assert isinstance(operator, _QuietOperator), "it is built of that kind"
    operator.default = default
    return operator


def _quiet_letters(honest: AsyncFunction, attempt: HasJournal) -> AsyncFunction:
    """`honest`, with default values instead of dead letters; a function that writes none stays as it is."""
    del attempt
    if not isinstance(honest, DeadLetterFunction):
        return honest
    return _Rerouted(honest.function, _QuietHandle)


def _failing_letters(honest: AsyncFunction, attempt: HasJournal) -> AsyncFunction:
    """`honest`, whose dead letters also fail the task; a function that writes none stays as it is."""
    if not isinstance(honest, DeadLetterFunction):
        return honest
    return _Rerouted(honest.function, lambda value, handle: _FailingHandle(value, handle, attempt))


class _Rerouted:
    """`function`, which gets the handles that `way` makes of the operator's."""

    def __init__(self, function: AsyncFunction, way: Callable[[Any, ResultHandle], Any]) -> None:
        self._function = function
        self._way = way

    def invoke(self, value: Any, handle: ResultHandle) -> None:
        self._function.invoke(value, self._way(value, handle))

    def timeout(self, value: Any, handle: ResultHandle) -> None:
        self._function.timeout(value, self._way(value, handle))


class _ReroutedHandle:
    """`handle`, for subclasses that treat a failure in another way."""

    def __init__(self, value: Any, handle: ResultHandle) -> None:
        self._value = value
        self._handle = handle

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handle, name)


class _QuietHandle(_ReroutedHandle):
    def fail(self, error: BaseException) -> None:
        del error
        self._handle.complete(_nothing_known(self._value))


class _FailingHandle(_ReroutedHandle):
    def __init__(self, value: Any, handle: ResultHandle, attempt: HasJournal) -> None:
        super().__init__(value, handle)
        self._attempt = attempt

    def fail(self, error: BaseException) -> None:
        self._attempt.journal.event(Dead, id=self._value.id)
        self._handle.fail(error)


_CALLS_BEFORE_RAISE = 20
"""Fewer than one batch of a runner of level spark makes, for there the first attempt is the first batch."""


class _RaisesOnce:
    """`function`, which raises at one call."""

    def __init__(self, function: AsyncFunction) -> None:
        self._function = function
        self._calls = 0
        self.timeout = function.timeout

    def invoke(self, value: Any, handle: ResultHandle) -> None:
        self._calls += 1
        if self._calls == _CALLS_BEFORE_RAISE:
            handle.fail(RuntimeError("a mistake of the function"))
        else:
            self._function.invoke(value, handle)

    def open(self) -> None:
        open_function(self._function)

    def close(self) -> None:
        close_function(self._function)


def _raising_once(honest: AsyncFunction, attempt: HasJournal) -> AsyncFunction:
    """`honest`, which raises once in the first attempt of each subtask."""
    return _RaisesOnce(honest) if attempt.journal.attempt == 1 else honest


OF_CALLS = (
    Defect(
        name="raises-now-and-then",
        about="the function raises by itself now and then, and its task is restarted and goes on",
        mirrors="a bug that restarts hide",
        convicted_by=("V24",),
        variant=Variant(function=_raising_once),
        where="`nothing-fails`",
        applies=NEVER,
        scenario="nothing-fails",
    ),
    Defect(
        number=6,
        name="loses-completions",
        about="of a thousand calls that go well, three are never heard of again",
        mirrors="FLINK-40456",
        convicted_by=("V16",),
        variant=Variant(build_operator=build_losing_operator),
        where="no timeout",
        applies=has_no_timeout,
        levels=SIM_ONLY,
    ),
    SETTLES_TWICE,
    RETRIES_AFTER_TIMEOUT,
    Defect(
        number=11,
        name="late-results",
        about="a result that comes after the record's timeout leaves too",
        mirrors="a timeout that shuts no door",
        convicted_by=("V8", "V15"),
        variant=Variant(build_operator=building(_EmitsLateResults), pool=cancelling_nothing),
        where="calls are made once; a timeout is answered, and cancels nothing",
        applies=both(calls_once, timeouts_cancel_nothing),
        scenario="loop-stall",
    ),
    Defect(
        name="substitute-beside-answer",
        about="a record times out although its answer has been accepted, and both leave",
        mirrors="a timer that looks at what has been emitted, not at what has been accepted",
        convicted_by=("V8", "V15"),
        variant=Variant(build_operator=building(_SubstitutesBesideAnswers)),
        where="calls are made once; a timeout gives a substitute; an answer comes at a timeout",
        applies=both(substitutes, answers_at_timeouts),
        levels=SIM_ONLY,
        scenario="answer-at-timeout",
    ),
    Defect(
        number=20,
        name="swallows-errors",
        about="a call's error is swallowed, and a default value leaves",
        mirrors="a bare except",
        convicted_by=("V20", "V8"),
        variant=Variant(build_operator=build_quiet_operator, function=_quiet_letters),
        where="calls are made once; one ends with an error",
        applies=both(calls_once, calls_fail),
        scenario="schema-change",
    ),
    Defect(
        number=29,
        name="dead-letter-and-failure",
        about="a record goes to the dead letters, and fails its task as well",
        mirrors="double routing",
        convicted_by=("V20",),
        variant=Variant(function=_failing_letters),
        where="there are dead letters; a call ends with an error",
        applies=both(has_dead_letters, calls_fail),
        scenario="poison-raises",
    ),
)
