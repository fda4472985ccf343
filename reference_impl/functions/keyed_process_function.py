"""A function over a keyed stream, or over two: state and timers of the key at hand.

Answers to Flink's `KeyedProcessFunction` and `KeyedCoProcessFunction` with their contexts. Invariant: each call has one
current key, that of its record or of its timer, and only that key's state and timers are in reach (S1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar, runtime_checkable

from reference_impl.functions.timer_service import TimeDomain, TimerService
from reference_impl.internal_timers.internal_timer import KeyContext
from reference_impl.state.broadcast_state import ReadOnlyBroadcastState
from reference_impl.state.state_descriptor import MapStateDescriptor

__all__ = [
    "Collector",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "OnTimer",
    "ProcessContext",
    "broadcast_state",
]

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
    """What is obligatory; `OnTimer`, `RichFunction`, a `close()` and operator state are abilities besides."""

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
