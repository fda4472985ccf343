"""Faults of calls and planned failures: wraps the function and its result handles.

Answers to a user function that has a bug for one record, and to a client that loses or repeats a callback. Invariants:
an act on a call is journalled before it is performed; calls that no fault selects are passed through unchanged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.faults.model.workload import CallFault, PassOn
from harness.faults.parts.parts import Workload
from harness.history.causes import PLANTED, Caused
from harness.history.notes import Acted, NoteLog
from reference_impl.operator.functions import AsyncFunction, close_function, open_function
from reference_impl.operator.result import ResultHandle, Supplier


class Poisoned(Caused):
    """The error of a poisoned record's call."""


class PlannedFailure(Caused):
    """The error of a call that fails because the workload asks for it (`failing_every`)."""

    def __init__(self, message: str) -> None:
        super().__init__(message, by=PLANTED)


@dataclass(slots=True, kw_only=True)
class PlannedCalls:
    """The calls on which one fault acts. Mutable: `left` counts down."""

    fault: CallFault
    ids: Sequence[int]
    """The ids of its records."""
    left: int
    """How many calls it will still act on."""


class FaultyCalls:
    """Wraps an `AsyncFunction` with the faults of its calls; `die(why, fault)` ends the process."""

    def __init__(
        self,
        function: AsyncFunction,
        planned: Sequence[PlannedCalls],
        *,
        journal: NoteLog,
        die: Callable[[str, str], None],
    ) -> None:
        self._function = function
        self._journal = journal
        self._die = die
        self._by_id: Mapping[int, PlannedCalls] = {id_: calls for calls in planned for id_ in calls.ids}

    def open(self) -> None:
        open_function(self._function)

    def close(self) -> None:
        close_function(self._function)

    def invoke(self, value: Any, handle: ResultHandle) -> None:
        planned = self._by_id.get(value.id)
        if planned is None or not planned.left:
            self._function.invoke(value, handle)
            return
        planned.left -= 1
        fault = planned.fault
        self._journal.note(Acted(fault=fault.id, what=fault.does, facts={"id": value.id}))
        fault.act_on_call(
            _Struck(
                value=value,
                handle=handle,
                fault=fault.id,
                journal=self._journal,
                die=self._die,
                function=self._function,
            )
        )

    def timeout(self, value: object, handle: ResultHandle) -> None:
        self._function.timeout(value, handle)


class _Struck:
    """One call that a fault acts on; a `StruckCall`."""

    def __init__(
        self,
        *,
        value: Any,
        handle: ResultHandle,
        fault: str,
        journal: NoteLog,
        die: Callable[[str, str], None],
        function: AsyncFunction,
    ) -> None:
        self.id: int = value.id
        self.journal = journal
        self._value = value
        self._handle = handle
        self._fault = fault
        self._die = die
        self._function = function

    def invoke(self, pass_on: PassOn) -> None:
        self._function.invoke(self._value, PassedOn(self._handle, pass_on))

    def fail(self, why: str) -> None:
        self._handle.fail(Poisoned(why, by=self._fault))

    def die(self, why: str) -> None:
        self._die(why, self._fault)


class PassedOn:
    """Wraps a result handle so that each use goes through the fault."""

    def __init__(self, handle: ResultHandle, pass_on: PassOn) -> None:
        self._handle = handle
        self._pass_on = pass_on

    @property
    def record_key(self) -> object:
        return self._handle.record_key

    @property
    def done(self) -> bool:
        return self._handle.done

    def complete(self, results: Sequence[object]) -> None:
        self._pass_on("complete", lambda: self._handle.complete(results))

    def fail(self, error: BaseException) -> None:
        self._pass_on("fail", lambda: self._handle.fail(error))

    def supply(self, supplier: Supplier) -> None:
        self._pass_on("supply", lambda: self._handle.supply(supplier))


def with_planned_failures(function: AsyncFunction, workload: Workload) -> AsyncFunction:
    """`function`, or a wrapper whose first calls of every `failing_every`-th record fail."""
    return _FailingCalls(function, workload) if workload.failing_every else function


class _FailingCalls:
    """Fails the first `failing_calls` calls of a failing record. Mutable: counts the calls of one attempt."""

    def __init__(self, function: AsyncFunction, workload: Workload) -> None:
        self._function = function
        self._every = workload.failing_every
        self._calls = workload.failing_calls
        self._step = workload.subtasks
        self._made: Counter[int] = Counter()

    def open(self) -> None:
        open_function(self._function)

    def close(self) -> None:
        close_function(self._function)

    def invoke(self, value: Any, handle: ResultHandle) -> None:
        number = value.id // self._step + 1
        if number % self._every or self._made[value.id] >= self._calls:
            self._function.invoke(value, handle)
            return
        self._made[value.id] += 1
        handle.fail(PlannedFailure(f"call {self._made[value.id]} of record {value.id} fails as planned"))

    def timeout(self, value: object, handle: ResultHandle) -> None:
        self._function.timeout(value, handle)
