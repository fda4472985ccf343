"""A function over a keyed stream and a broadcast one: every subtask sees all of the second, and may act by it.

Answers to Flink's `KeyedBroadcastProcessFunction` with its contexts. Invariant: only the broadcast side writes
broadcast state (S24). That all subtasks write the same is the function's promise: it must decide by the element and
the state alone, not by the order in which elements of different senders come.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from reference_impl.functions.keyed_process_function import Collector, ProcessContext, broadcast_state
from reference_impl.state.broadcast_state import BroadcastState
from reference_impl.state.keyed_state_backend import KeyedStateBackend
from reference_impl.state.state_descriptor import MapStateDescriptor, StateDescriptor

__all__ = ["BroadcastContext", "KeyedBroadcastProcessFunction"]


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
    """What is obligatory; the abilities are those of a `KeyedProcessFunction`."""

    def process_element(self, value: Any, context: ProcessContext, out: Collector) -> None:
        """A record of the keyed stream has come; broadcast state is to be read only."""

    def process_broadcast_element(self, value: Any, context: BroadcastContext, out: Collector) -> None:
        """An element that every subtask gets has come."""
