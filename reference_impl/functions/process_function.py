"""Functions over keyed streams and what each call of one is given: a context, timers, and the key's state.

Answers to Flink's `KeyedProcessFunction`, `KeyedCoProcessFunction` and `KeyedBroadcastProcessFunction` with their
contexts, to `RuntimeContext` and `RichFunction`, and to `SimpleTimerService` and `TimeDomain`. Invariant: each call has
at most one current key, that of its record or of its timer, and only that key's state and timers are in reach (S1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Protocol, TypeVar, runtime_checkable

from reference_impl.state.internal_timers import InternalTimerService, KeyContext
from reference_impl.state.keyed_state_backend import KeyedStateBackend
from reference_impl.state.operator_state import BroadcastState, ReadOnlyBroadcastState
from reference_impl.state.state_descriptor import MapStateDescriptor, StateDescriptor

__all__ = [
    "BroadcastContext",
    "Collector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "OnTimer",
    "ProcessContext",
    "RichFunction",
    "RuntimeContext",
    "TimeDomain",
    "TimerService",
    "broadcast_state",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeContext:
    """What a function knows of where it runs, and its door to keyed state.

    Handed to a function's `open`.

    Answers to Flink's `RuntimeContext` and `RichFunction`. Invariant: a state obtained here is that of the current key,
    whenever it is used (S1).
    """

    keyed_state_store: Any = None
    """None on a stream without keys."""
    subtask_index: int = 0
    number_of_parallel_subtasks: int = 1
    max_number_of_parallel_subtasks: int = 128

    def with_keyed_state(self, store: Any) -> RuntimeContext:
        """The same, with the state of the current key."""
        return replace(self, keyed_state_store=store)

    def get_state(self, descriptor: Any) -> Any:
        """One value a key."""
        return self._store().get_state(descriptor)

    def get_list_state(self, descriptor: Any) -> Any:
        """Elements in the order in which they were added."""
        return self._store().get_list_state(descriptor)

    def get_reducing_state(self, descriptor: Any) -> Any:
        """All that was added, reduced to one value."""
        return self._store().get_reducing_state(descriptor)

    def get_aggregating_state(self, descriptor: Any) -> Any:
        """All that was added, in an accumulator."""
        return self._store().get_aggregating_state(descriptor)

    def get_map_state(self, descriptor: Any) -> Any:
        """Values by a key within the key."""
        return self._store().get_map_state(descriptor)

    def _store(self) -> Any:
        if self.keyed_state_store is None:
            raise ValueError(
                "keyed state on a stream without keys: give the operator a key selector and a backend"
            )
        return self.keyed_state_store


@runtime_checkable
class RichFunction(Protocol):
    """Wants keyed state, or to know where it runs."""

    def open(self, context: RuntimeContext) -> None:
        """Before any record: register states."""


class TimeDomain(Enum):
    """By which time a timer fired."""

    EVENT_TIME = "event time"
    PROCESSING_TIME = "processing time"


class TimerService:
    """Timers as a user's function sees them: of the current key, without a namespace.

    A function's view of a service.

    Answers to Flink's `SimpleTimerService` and `TimeDomain`. Invariant: what is registered here fires at the function's
    `on_timer`, once, with the key that was current when it was registered (T10).
    """

    __slots__ = ("_service",)

    def __init__(self, service: InternalTimerService) -> None:
        self._service = service

    @property
    def current_processing_time(self) -> int:
        """The present instant (ms)."""
        return self._service.current_processing_time

    @property
    def current_watermark(self) -> int:
        """The newest; in `on_timer` already the one that released the timer (T12)."""
        return self._service.current_watermark

    def register_event_time_timer(self, time: int) -> None:
        """Once the watermark has reached `time` (ms)."""
        self._service.register_event_time_timer(None, time)

    def delete_event_time_timer(self, time: int) -> None:
        """Of no effect if there is none."""
        self._service.delete_event_time_timer(None, time)

    def register_processing_time_timer(self, time: int) -> None:
        """Once the clock has reached `time` (ms)."""
        self._service.register_processing_time_timer(None, time)

    def delete_processing_time_timer(self, time: int) -> None:
        """Of no effect if there is none."""
        self._service.delete_processing_time_timer(None, time)


Collector = Callable[[Any], None]
"""Emits a value, with the event time of the record or timer at hand."""


class ProcessContext:
    """Of the call under way. Mutable: its operator sets it before each; of no use after the call."""

    __slots__ = ("_broadcast", "_key_context", "position", "time_domain", "timer_service", "timestamp")

    def __init__(
        self,
        *,
        key_context: KeyContext,
        timer_service: TimerService,
        broadcast: Mapping[str, ReadOnlyBroadcastState[Any, Any]],
    ) -> None:
        self._key_context = key_context
        self._broadcast = broadcast
        self.timer_service = timer_service
        self.timestamp: int | None = None
        """The event time of the record, or the instant of the timer; None for a record without one."""
        self.time_domain: TimeDomain | None = None
        """By which time the timer fired; None for a record."""
        self.position: int | None = None
        """The record's, carried to what is emitted for it."""

    @property
    def current_key(self) -> Any:
        """The key of the record or timer."""
        return self._key_context.current_key

    def get_broadcast_state(self, descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        """What the other side has broadcast, to be read only (S24)."""
        return broadcast_state(self._broadcast, descriptor)

    @property
    def emitted_timestamp(self) -> int | None:
        """What a value emitted now gets: a timer of processing time says nothing about event time."""
        return None if self.time_domain is TimeDomain.PROCESSING_TIME else self.timestamp


S = TypeVar("S")


def broadcast_state(states: Mapping[str, S], descriptor: MapStateDescriptor) -> S:
    """The one that `descriptor` means."""
    if descriptor.name not in states:
        raise ValueError(
            f"the operator has no broadcast state {descriptor.name!r}, but {sorted(states)};"
            " name its descriptor where the operator is built"
        )
    return states[descriptor.name]


class KeyedProcessFunction(Protocol):
    """A function over a keyed stream, or over two: state and timers of the key at hand.

    What is obligatory; `OnTimer`, `RichFunction`, a `close()` and operator state are abilities besides.

    Answers to Flink's `KeyedProcessFunction` and `KeyedCoProcessFunction` with their contexts. Invariant: each call has
    one current key, that of its record or of its timer, and only that key's state and timers are in reach (S1).
    """

    def process_element(self, value: Any, context: ProcessContext, out: Collector) -> None:
        """A record has come."""


class KeyedCoProcessFunction(Protocol):
    """The same over two streams that share their keys, and so their state."""

    def process_element1(self, value: Any, context: ProcessContext, out: Collector) -> None:
        """A record of the first stream has come."""

    def process_element2(self, value: Any, context: ProcessContext, out: Collector) -> None:
        """A record of the second stream has come."""


@runtime_checkable
class OnTimer(Protocol):
    """Registers timers."""

    def on_timer(self, timestamp: int, context: ProcessContext, out: Collector) -> None:
        """A timer that this function registered has fired."""


class BroadcastContext:
    """Of a broadcast element: no key, so no timers. Mutable: set before each call, of no use after it."""

    def __init__(self, *, states: Mapping[str, BroadcastState[Any, Any]], backend: KeyedStateBackend) -> None:
        self._states = states
        self._backend = backend
        self.timestamp: int | None = None
        """The event time of the element; None for one without."""
        self.position: int | None = None
        """The element's, carried to what is emitted for it."""

    def get_broadcast_state(self, descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """To be read and written."""
        return broadcast_state(self._states, descriptor)

    def apply_to_keyed_state(self, descriptor: StateDescriptor, function: Callable[[Any, Any], None]) -> None:
        """Call `function` with each key of this subtask that has the state, and the state."""
        self._backend.apply_to_all_keys(None, descriptor, function)


class KeyedBroadcastProcessFunction(Protocol):
    """A function over a keyed stream and a broadcast one: every subtask sees all of the second, and may act by it.

    What is obligatory; the abilities are those of a `KeyedProcessFunction`.

    Answers to Flink's `KeyedBroadcastProcessFunction` with its contexts. Invariant: only the broadcast side writes
    broadcast state (S24). That all subtasks write the same is the function's promise: it must decide by the element and
    the state alone, not by the order in which elements of different senders come.
    """

    def process_element(self, value: Any, context: ProcessContext, out: Collector) -> None:
        """A record of the keyed stream has come; broadcast state is to be read only."""

    def process_broadcast_element(self, value: Any, context: BroadcastContext, out: Collector) -> None:
        """An element that every subtask gets has come."""
