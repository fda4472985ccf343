"""The interface through which a user's function requests keyed state, by kind and without namespaces.

Answers to Flink's `KeyedStateStore` and `DefaultKeyedStateStore`. Invariant: all states have the default namespace;
the operator selects the key (S1).
"""

from __future__ import annotations

from typing import Any

from reference_impl.errors import StateError
from reference_impl.state.keyed_state import AggregatingState, ListState, ReducingState, ValueState
from reference_impl.state.keyed_state_backend import KeyedStateBackend
from reference_impl.state.map_state import MapState
from reference_impl.state.state_descriptor import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from reference_impl.state.ttl_states import (
    TtlAggregatingState,
    TtlListState,
    TtlMapState,
    TtlReducingState,
    TtlValueState,
)


class KeyedStateStore:
    """Requests states from `backend`."""

    def __init__(self, backend: KeyedStateBackend) -> None:
        self._backend = backend

    def get_state(self, descriptor: ValueStateDescriptor) -> ValueState | TtlValueState:
        state: ValueState | TtlValueState = self._state(descriptor, ValueStateDescriptor)
        return state

    def get_list_state(self, descriptor: ListStateDescriptor) -> ListState | TtlListState:
        state: ListState | TtlListState = self._state(descriptor, ListStateDescriptor)
        return state

    def get_reducing_state(self, descriptor: ReducingStateDescriptor) -> ReducingState | TtlReducingState:
        state: ReducingState | TtlReducingState = self._state(descriptor, ReducingStateDescriptor)
        return state

    def get_aggregating_state(
        self, descriptor: AggregatingStateDescriptor
    ) -> AggregatingState | TtlAggregatingState:
        state: AggregatingState | TtlAggregatingState = self._state(descriptor, AggregatingStateDescriptor)
        return state

    def get_map_state(self, descriptor: MapStateDescriptor) -> MapState | TtlMapState:
        state: MapState | TtlMapState = self._state(descriptor, MapStateDescriptor)
        return state

    def _state(self, descriptor: StateDescriptor, kind: type[StateDescriptor]) -> Any:
        """Refuse a descriptor of another kind here instead of at its first use."""
        if not isinstance(descriptor, kind):
            raise StateError(
                f"a {type(descriptor).__name__} cannot describe this kind of state; give a {kind.__name__}",
                operator=self._backend.operator,
                state=getattr(descriptor, "name", None),
            )
        return self._backend.get_partitioned_state(None, descriptor)
