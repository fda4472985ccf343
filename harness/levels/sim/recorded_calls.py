"""Recorded calls: gives calls the outcomes and latencies that a run of another level had (`choices.calls`).

Answers to the tape of a record-and-replay debugger, for the only input that the operator does not make itself.
Invariant: a call ends at its recorded time or, if the simulated answer comes later, with that answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from harness.faults.parts.found_parts import RecordedCall
from harness.history.causes import PLANTED, Caused
from harness.scenario.workloads.lookups import Lookup
from harness.sut.faulty_calls import PassedOn
from reference_impl.operator.functions import AsyncFunction, close_function, open_function
from reference_impl.operator.result import ResultHandle

if TYPE_CHECKING:
    from harness.database.simulated.hub import Hub
    from harness.levels.sim.place import SimulatedAttempt

_MS_PER_S: Final = 1000


class RecordedFailure(Caused):
    """The error of a call that failed in the recorded run, too."""

    def __init__(self, message: str) -> None:
        super().__init__(message, by=PLANTED)


class RecordedCalls:
    """The calls of one run. Mutable: counts the calls of each record, over all attempts."""

    def __init__(self, calls: Sequence[RecordedCall], *, hub: Hub) -> None:
        self.hub = hub
        self._calls = {(call.id, call.call): call for call in calls}
        self._made: Counter[int | str] = Counter()

    def around(self, function: AsyncFunction, attempt: SimulatedAttempt) -> AsyncFunction:
        """`function` with the recorded outcomes of its calls; unchanged if none is recorded."""
        return _Recorded(function, attempt, calls=self) if self._calls else function

    def next_of(self, record: int | str) -> RecordedCall | None:
        """What is recorded of the next call of `record`; None: nothing."""
        self._made[record] += 1
        return self._calls.get((record, self._made[record]))


class _Recorded:
    """Wraps the function of one attempt."""

    def __init__(self, function: AsyncFunction, attempt: SimulatedAttempt, *, calls: RecordedCalls) -> None:
        self._function = function
        self._attempt = attempt
        self._calls = calls

    def open(self) -> None:
        open_function(self._function)

    def close(self) -> None:
        close_function(self._function)

    def timeout(self, value: Any, handle: ResultHandle) -> None:
        self._function.timeout(value, handle)

    def invoke(self, value: Any, handle: ResultHandle) -> None:
        recorded = self._calls.next_of(value.id)
        if recorded is None:
            self._function.invoke(value, handle)
            return
        due_ms = self._calls.hub.now_ms + recorded.takes
        if recorded.ends == "error":
            error = RecordedFailure(f"call {recorded.call} of record {value.id} failed in the recorded run")
            self._at(due_ms, lambda: handle.fail(error))
            return

        def pass_on(_what: str, act: Callable[[], None]) -> None:
            self._at(due_ms, act)

        if isinstance(value, Lookup):  # the server takes the time, so that the connection is in use meanwhile
            value = msgspec.structs.replace(value, service_ms=max(0, recorded.takes - 1))
        self._function.invoke(value, PassedOn(handle, pass_on))

    def _at(self, due_ms: int, act: Callable[[], None]) -> None:
        loop, left_ms = self._attempt.loop, due_ms - self._calls.hub.now_ms
        assert loop is not None, "an attempt has its loop before its function"
        if left_ms > 0:
            loop.call_later(left_ms / _MS_PER_S, act)
        else:
            act()
