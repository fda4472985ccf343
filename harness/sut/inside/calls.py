"""Calls that go wrong by themselves: poisoned records, and completions that come twice or never.

Answers to a user's function with a bug for one record, and to an adapter that loses a callback or repeats it. The
faults stand around the function and its handle, so they are the same for every function at every level. Invariant:
what is done to a call is written down before it is done; a call that no fault picks goes through untouched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.sut.inside.stall import ActJournal
from reference_impl.async_function import AsyncFunction, close_function, open_function
from reference_impl.result import ResultHandle, Supplier

__all__ = ["CallFault", "FaultyCalls", "Poisoned"]


class Poisoned(Exception):
    """What a poisoned record's call raises."""


@dataclass(slots=True, kw_only=True)
class CallFault:
    """What is done to calls. Mutable: `left` counts down."""

    fault: str
    does: str
    """`raises`, `silent`, `kills`; `twice`, `never`."""
    ids: range
    """The records that it picks."""
    left: int
    """How many calls it still acts on."""


class FaultyCalls:
    """`function` with faults around its calls; an `AsyncFunction`. `die` ends the process."""

    def __init__(
        self,
        function: AsyncFunction,
        faults: Sequence[CallFault],
        *,
        journal: ActJournal,
        die: Callable[[str], None],
    ) -> None:
        self._function = function
        self._journal = journal
        self._die = die
        self._by_id: Mapping[int, CallFault] = {id_: fault for fault in faults for id_ in fault.ids}

    def open(self) -> None:
        """As the function's own."""
        open_function(self._function)

    def close(self) -> None:
        """As the function's own."""
        close_function(self._function)

    def invoke(self, value: Any, handle: ResultHandle) -> None:
        """See `AsyncFunction`."""
        fault = self._by_id.get(value.id)
        if fault is None or not fault.left:
            self._function.invoke(value, handle)
            return
        fault.left -= 1
        self._journal.acted(fault.fault, fault.does, id=value.id)
        match fault.does:
            case "raises":
                handle.fail(Poisoned(f"record {value.id} is poisoned"))
            case "kills":
                self._die(f"record {value.id} is poisoned")
            case "twice":
                self._function.invoke(value, _Twice(fault.fault, value.id, handle, self._journal))
            case "never":
                self._function.invoke(value, _Never(fault.fault, value.id, handle, self._journal))
            case _:
                """`silent`: nobody hears of it again."""

    def timeout(self, value: Any, handle: ResultHandle) -> None:
        """See `AsyncFunction`."""
        self._function.timeout(value, handle)


class _Faulty:
    """A handle behind which something goes wrong."""

    def __init__(self, fault: str, id_: int, handle: ResultHandle, journal: ActJournal) -> None:
        self._fault = fault
        self._id = id_
        self._handle = handle
        self._journal = journal

    @property
    def record_key(self) -> object:
        return self._handle.record_key

    @property
    def done(self) -> bool:
        return self._handle.done

    def complete(self, results: Sequence[Any]) -> None:
        self._pass_on("complete", lambda: self._handle.complete(results))

    def fail(self, error: BaseException) -> None:
        self._pass_on("fail", lambda: self._handle.fail(error))

    def supply(self, supplier: Supplier) -> None:
        self._pass_on("supply", lambda: self._handle.supply(supplier))

    def _pass_on(self, what: str, use: Callable[[], None]) -> None:
        raise NotImplementedError


class _Twice(_Faulty):
    """Whatever comes is passed on two times."""

    def _pass_on(self, what: str, use: Callable[[], None]) -> None:
        use()
        self._journal.measured(self._fault, "completion repeated", id=self._id, by=what)
        use()


class _Never(_Faulty):
    """Whatever comes is lost."""

    def _pass_on(self, what: str, use: Callable[[], None]) -> None:
        del use
        self._journal.measured(self._fault, "completion lost", id=self._id, by=what)
