"""Functions over keyed streams, and what each call gets: a context, timers, and the state of the current key.

Answers to Flink's `KeyedProcessFunction`, `KeyedCoProcessFunction` and `KeyedBroadcastProcessFunction` with their
contexts, to `RuntimeContext` and `RichFunction`, and to `SimpleTimerService` and `TimeDomain`. Invariant: each call
has at most one current key, that of its record or timer, and accesses only that key's state and timers (S1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Any, Protocol, TypeVar, runtime_checkable

from reference_impl.state.internal_timers import InternalTimerService, KeyContext
from reference_impl.state.key_groups import HashableKey
from reference_impl.state.keyed_state import KeyedState
from reference_impl.state.keyed_state_backend import KeyedStateBackend, KeyedStateStore, RequestsStates
from reference_impl.state.operator_state import BroadcastState, ReadOnlyBroadcastState
from reference_impl.state.state_descriptor import (
    MapStateDescriptor,
    StateDescriptor,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeContext(RequestsStates):
    """Argument of a function's `open`: its place among the subtasks, and its access to keyed state.

    Answers to Flink's `RuntimeContext`. Invariant: a state obtained here is that of the current key at each use (S1).
    """

    keyed_state_store: KeyedStateStore | None = None
    """None on a stream without keys."""
    subtask_index: int = 0
    number_of_parallel_subtasks: int = 1
    max_number_of_parallel_subtasks: int = 128

    def with_keyed_state(self, store: KeyedStateStore | None) -> RuntimeContext:
        return replace(self, keyed_state_store=store)

    def state_of(self, descriptor: StateDescriptor, kind: type[StateDescriptor]) -> KeyedState:
        if self.keyed_state_store is None:
            raise ValueError(
                "keyed state was requested on a stream without keys; give the operator a key selector and a backend"
            )
        return self.keyed_state_store.state_of(descriptor, kind)


@runtime_checkable
class RichFunction(Protocol):
    """A function that uses keyed state or its runtime context."""

    def open(self, context: RuntimeContext) -> None:
        """Register states; called before any record."""


class TimeDomain(Enum):
    """The clock by which a timer fired."""

    EVENT_TIME = "event time"
    PROCESSING_TIME = "processing time"


class TimerService:
    """A user function's timers: those of the current key, without a namespace.

    Answers to Flink's `SimpleTimerService`. Invariant: a timer registered here calls `on_timer` once, with the key
    that was current at the registration (T10).
    """

    __slots__ = (
        "_service",
        "delete_event_time_timer",
        "delete_processing_time_timer",
        "register_event_time_timer",
        "register_processing_time_timer",
    )

    def __init__(self, service: InternalTimerService) -> None:
        self._service = service
        self.register_event_time_timer = partial(service.register_event_time_timer, None)
        """Fire when the watermark reaches a time (ms)."""
        self.delete_event_time_timer = partial(service.delete_event_time_timer, None)
        """Without effect if there is no such timer."""
        self.register_processing_time_timer = partial(service.register_processing_time_timer, None)
        """Fire when the clock reaches a time (ms)."""
        self.delete_processing_time_timer = partial(service.delete_processing_time_timer, None)
        """Without effect if there is no such timer."""

    @property
    def current_processing_time(self) -> int:
        """The current time (ms)."""
        return self._service.current_processing_time

    @property
    def current_watermark(self) -> int:
        """The current watermark; in `on_timer`, the one that made the timer fire (T12)."""
        return self._service.current_watermark


Collector = Callable[[Any], None]
"""Emits a value, with the event time of the current record or timer."""


class ProcessContext:
    """The context of the current call. Mutable: set before each call, valid during it."""

    __slots__ = ("_broadcast", "_key_context", "position", "time_domain", "timer_service", "timestamp")

    def __init__(
        self,
        *,
        key_context: KeyContext,
        timer_service: TimerService,
        broadcast: Mapping[str, ReadOnlyBroadcastState[object, object]],
    ) -> None:
        self._key_context = key_context
        self._broadcast = broadcast
        self.timer_service = timer_service
        self.timestamp: int | None = None
        """The event time of the record, or the time of the timer; None for a record without event time."""
        self.time_domain: TimeDomain | None = None
        """The clock by which the timer fired; None for a record."""
        self.position: int | None = None
        """The record's source position, copied to the results."""

    @property
    def current_key(self) -> HashableKey:
        """The key of the record or timer."""
        return self._key_context.current_key

    def get_broadcast_state(self, descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[object, object]:
        """A read-only view of a broadcast state (S24)."""
        return broadcast_state(self._broadcast, descriptor)

    @property
    def emitted_timestamp(self) -> int | None:
        """The event time of emitted values; a processing-time timer has none."""
        return None if self.time_domain is TimeDomain.PROCESSING_TIME else self.timestamp


S = TypeVar("S")


def broadcast_state(states: Mapping[str, S], descriptor: MapStateDescriptor) -> S:
    """The state that `descriptor` names."""
    if descriptor.name not in states:
        raise ValueError(
            f"the operator has no broadcast state {descriptor.name!r}, but {sorted(states)};"
            " name its descriptor where the operator is built"
        )
    return states[descriptor.name]


class KeyedProcessFunction(Protocol):
    """A function over a keyed stream; `OnTimer`, `RichFunction`, `close()` and operator state are optional.

    Answers to Flink's `KeyedProcessFunction` with its contexts. Invariant: each call has one current key, that of its
    record or timer, and accesses only that key's state and timers (S1).
    """

    def process_element(self, value: Any, context: ProcessContext, out: Collector) -> None:
        """Called for each record."""


class KeyedCoProcessFunction(Protocol):
    """A function over two keyed streams that share keys and state."""

    def process_element1(self, value: Any, context: ProcessContext, out: Collector) -> None:
        """Called for each record of the first stream."""

    def process_element2(self, value: Any, context: ProcessContext, out: Collector) -> None:
        """Called for each record of the second stream."""


@runtime_checkable
class OnTimer(Protocol):
    """A function that registers timers."""

    def on_timer(self, timestamp: int, context: ProcessContext, out: Collector) -> None:
        """Called when a timer of this function fires."""


class BroadcastContext:
    """The context of a broadcast element, without key and timers. Mutable: set before each call, valid during it."""

    def __init__(
        self, *, states: Mapping[str, BroadcastState[object, object]], backend: KeyedStateBackend
    ) -> None:
        self._states = states
        self._backend = backend
        self.timestamp: int | None = None
        """The event time of the element, or None."""
        self.position: int | None = None
        """The element's source position, copied to the results."""

    def get_broadcast_state(self, descriptor: MapStateDescriptor) -> BroadcastState[object, object]:
        """A broadcast state, for reading and writing."""
        return broadcast_state(self._states, descriptor)

    def apply_to_keyed_state(self, descriptor: StateDescriptor, function: Callable[[Any, Any], None]) -> None:
        """Call `function` with each key of this subtask that has the state, and with the state."""
        self._backend.apply_to_all_keys(None, descriptor, function)


class KeyedBroadcastProcessFunction(Protocol):
    """A function over a keyed and a broadcast stream; the options are those of a `KeyedProcessFunction`.

    Answers to Flink's `KeyedBroadcastProcessFunction` with its contexts. Invariant: only the broadcast side writes
    broadcast state (S24). The function must ensure that all subtasks write the same: it may use only the element and
    the state, not the order in which elements of different senders arrive.
    """

    def process_element(self, value: object, context: ProcessContext, out: Collector) -> None:
        """Called for each record of the keyed stream; broadcast state is read-only."""

    def process_broadcast_element(self, value: object, context: BroadcastContext, out: Collector) -> None:
        """Called for each broadcast element, in every subtask."""
