"""The session counter: of each key its records and its sessions, kept in keyed state, ended by timers in event time.

Answers to a user's `KeyedCoProcessFunction`. Invariant: what it stamps on a record is what the fold of
`harness.workloads.lookups` says of it, which shares no code with this; so any update or timer that is lost, doubled
or taken for another key's is a wrong value in the end.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import asdict

from harness.sut.phases import Phases
from harness.workloads.shape import Lookup, StampedLookup
from reference_impl.functions.process_function import Collector, ProcessContext, RuntimeContext
from reference_impl.state.state_descriptor import MapStateDescriptor, ValueStateDescriptor

__all__ = ["BY_INPUT", "SESSION", "SessionCounter"]

SESSION = ValueStateDescriptor(name="session", value_type=dict[str, int])
"""`ended` sessions of the key; the `place` in the present one, and when it `ends`, if there is one."""
BY_INPUT = MapStateDescriptor(name="by input", key_type=int, value_type=int)
"""Records of the key over each input."""


class SessionCounter:
    """A `KeyedCoProcessFunction` of lookups. Mutable: has its states from `open` on."""

    def __init__(self, *, gap_ms: int, phases: Phases) -> None:
        self._gap_ms = gap_ms
        self._phases = phases
        self._session: Any = None
        self._by_input: Any = None

    def open(self, context: RuntimeContext) -> None:
        """Register both states."""
        self._session = context.get_state(SESSION)
        self._by_input = context.get_map_state(BY_INPUT)

    def process_element1(self, value: Lookup, context: ProcessContext, out: Collector) -> None:
        """A record of input 0."""
        out(self._stamped(value, context, number=0))

    def process_element2(self, value: Lookup, context: ProcessContext, out: Collector) -> None:
        """A record of input 1."""
        out(self._stamped(value, context, number=1))

    def on_timer(self, timestamp: int, context: ProcessContext, out: Collector) -> None:
        """The key's session ends."""
        del timestamp, context, out
        self._phases.reach("timer")
        session = self._session.value() or _NO_SESSION
        self._session.update({"ended": session["ended"] + 1, "place": 0})

    def close(self) -> None:
        """There is nothing to release."""

    def _stamped(self, lookup: Lookup, context: ProcessContext, *, number: int) -> Lookup:
        of_input = (self._by_input.get(number) or 0) + 1
        self._by_input.put(number, of_input)
        session = self._prolonged(context)
        stamp = {
            "nth": sum(count for _, count in self._by_input.entries()),
            "of_input": of_input,
            "session": session["ended"] + 1,
            "place": session["place"],
        }
        return StampedLookup(**asdict(lookup), stamp=stamp)

    def _prolonged(self, context: ProcessContext) -> dict[str, int]:
        """The key's session with one record more, and its timer where it ends now."""
        session = self._session.value() or _NO_SESSION
        assert context.timestamp is not None, "the workload's records have their event time"
        ends_ms, timers = context.timestamp + self._gap_ms, context.timer_service
        before_ms = session.get("ends")
        if before_ms is None or before_ms < ends_ms:
            if before_ms is not None:
                timers.delete_event_time_timer(before_ms)
            timers.register_event_time_timer(ends_ms)
        else:
            ends_ms = before_ms
        prolonged = {"ended": session["ended"], "place": session["place"] + 1, "ends": ends_ms}
        self._session.update(prolonged)
        return prolonged


_NO_SESSION = {"ended": 0, "place": 0}
