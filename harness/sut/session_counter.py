"""The session counter: counts each key's records and sessions in keyed state; timers end the sessions.

Answers to a user's `KeyedCoProcessFunction`. Invariant: its stamp on a record equals the expected stamp from
`harness.scenario.workloads.sessions`, which shares no code with it; so a state update or timer that is lost, repeated
or applied to a wrong key shows as a wrong result.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from msgspec.structs import asdict

from harness.faults.parts.parts import Task
from harness.scenario.workloads.shape import Lookup, StampedLookup
from harness.sut.phases import Phases
from reference_impl.functions.process_function import Collector, ProcessContext, RuntimeContext
from reference_impl.state.state_descriptor import MapStateDescriptor, ValueStateDescriptor
from reference_impl.state.ttl_config import StateTtlConfig

SESSION = ValueStateDescriptor(name="session", value_type=dict[str, int])
"""`ended`: finished sessions of the key; `place`: records in the open session; `ends`: its end, if one is open."""
BY_INPUT = MapStateDescriptor(name="by input", key_type=int, value_type=int)
"""The number of the key's records on each input."""


class SessionCounter:
    """A `KeyedCoProcessFunction` of lookups. Mutable: gets its states in `open`."""

    def __init__(self, task: Task, *, phases: Phases) -> None:
        self._gap_ms = task.gap
        self._by_clock = task.timers == "processing-time"
        self._ttl = StateTtlConfig(time_to_live_ms=task.ttl) if task.ttl else None
        self._phases = phases
        self._session: Any = None
        self._by_input: Any = None

    def open(self, context: RuntimeContext) -> None:
        self._session = context.get_state(SESSION)
        self._by_input = context.get_map_state(replace(BY_INPUT, ttl=self._ttl))

    def process_element1(self, value: Lookup, context: ProcessContext, out: Collector) -> None:
        out(self._stamped(value, context, number=0))

    def process_element2(self, value: Lookup, context: ProcessContext, out: Collector) -> None:
        out(self._stamped(value, context, number=1))

    def on_timer(self, timestamp: int, context: ProcessContext, out: Collector) -> None:
        """Ends the session of the current key."""
        del timestamp, context, out
        self._phases.reach("timer")
        session = self._session.value() or _NO_SESSION
        self._session.update({"ended": session["ended"] + 1, "place": 0})

    def close(self) -> None:
        """Holds no resources."""

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
        """Adds a record to the key's session, and moves the timer if the session ends later now."""
        session = self._session.value() or _NO_SESSION
        assert context.timestamp is not None, "the workload's records have their event time"
        timers = context.timer_service
        if self._by_clock:
            now_ms = timers.current_processing_time
            register, delete = timers.register_processing_time_timer, timers.delete_processing_time_timer
        else:
            now_ms = context.timestamp
            register, delete = timers.register_event_time_timer, timers.delete_event_time_timer
        ends_ms = now_ms + self._gap_ms
        before_ms = session.get("ends")
        if before_ms is None or before_ms < ends_ms:
            if before_ms is not None:
                delete(before_ms)
            register(ends_ms)
        else:
            ends_ms = before_ms
        prolonged = {"ended": session["ended"], "place": session["place"] + 1, "ends": ends_ms}
        self._session.update(prolonged)
        return prolonged


_NO_SESSION = {"ended": 0, "place": 0}
