"""What all kinds of keyed state have in common, with a time to live or without.

Answers to Flink's `State`, `InternalKvState` and what `HeapKeyedStateBackend` makes of descriptors. Invariant: one kind
of descriptor, one class of state.
"""

from __future__ import annotations

from typing import Any, Protocol

from reference_impl.state.aggregating_state import AggregatingState
from reference_impl.state.keyed_state_handle import StateMetaInfo
from reference_impl.state.list_state import ListState
from reference_impl.state.map_state import MapState
from reference_impl.state.reducing_state import ReducingState
from reference_impl.state.serializer import TypeSerializer
from reference_impl.state.state_descriptor import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from reference_impl.state.state_table import StateTable
from reference_impl.state.value_state import ValueState

__all__ = ["KeyedState", "create_state", "meta_of"]


class KeyedState(Protocol):
    """A state, set to a namespace."""

    table: StateTable

    @property
    def current_namespace(self) -> Any:
        """The namespace that the next access is about."""

    def set_current_namespace(self, namespace: Any) -> None:
        """Let accesses be about `namespace` from now on."""

    def clear(self) -> None:
        """Let nothing be stored for the current key and namespace."""


def create_state(descriptor: StateDescriptor, serializer: TypeSerializer, table: StateTable) -> KeyedState:
    """The state that `descriptor` asks for, over `table`, its values stored by `serializer`."""
    match descriptor:
        case ValueStateDescriptor():
            return ValueState(descriptor, serializer, table)
        case ListStateDescriptor():
            return ListState(descriptor, serializer, table)
        case ReducingStateDescriptor():
            return ReducingState(descriptor, serializer, table)
        case AggregatingStateDescriptor():
            return AggregatingState(descriptor, serializer, table)
        case MapStateDescriptor():
            return MapState(descriptor, serializer, table)


def meta_of(descriptor: StateDescriptor, serializer: TypeSerializer) -> StateMetaInfo:
    """What a snapshot is to say of the state whose values `serializer` stores."""
    key_schema = descriptor.key_serializer.schema if isinstance(descriptor, MapStateDescriptor) else None
    return StateMetaInfo(kind=descriptor.kind, schema=serializer.schema, key_schema=key_schema)
