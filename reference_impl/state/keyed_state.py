"""The kinds of keyed state except the map: value, list, reducing and aggregating.

Answers to Flink's `State`, `InternalKvState`, `ValueState`, `ListState`, `ReducingState`, `AggregatingState` and their
`Heap...` classes, and to the creation of states in `HeapKeyedStateBackend`. Invariant: each kind of descriptor has one
class of state, with or without TTL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any, Protocol

from reference_impl.state.copy_on_write_state_map import Cell
from reference_impl.state.handles import StateMetaInfo
from reference_impl.state.map_state import MapState
from reference_impl.state.serializer import UNENCODABLE, TypeSerializer
from reference_impl.state.state_descriptor import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from reference_impl.state.state_table import HeapState, StateTable


class KeyedState(Protocol):
    """Any keyed state; accesses concern the current key and the namespace that was set."""

    table: StateTable

    @property
    def current_namespace(self) -> Any:
        """The namespace of the next access."""

    def set_current_namespace(self, namespace: object) -> None: ...

    def clear(self) -> None:
        """Remove what is stored for the current key and namespace."""


def create_state(descriptor: StateDescriptor, serializer: TypeSerializer, table: StateTable) -> KeyedState:
    """The state that `descriptor` requests, over `table`; `serializer` stores its values."""
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
    """The metadata that snapshots hold for a state whose values `serializer` stores."""
    key_schema = descriptor.key_serializer.schema if isinstance(descriptor, MapStateDescriptor) else None
    return StateMetaInfo(kind=descriptor.kind, schema=serializer.schema, key_schema=key_schema)


class ValueState(HeapState):
    """One value per key. Mutable.

    Answers to Flink's `ValueState` and `HeapValueState`. Invariant: a read returns a copy of the last value written,
    or of the default; changing the copy changes nothing until it is written (S3).
    """

    def __init__(
        self, descriptor: ValueStateDescriptor, serializer: TypeSerializer, table: StateTable
    ) -> None:
        super().__init__(table)
        self.descriptor = descriptor
        self._serializer = serializer
        try:
            self._default = None if descriptor.default is None else serializer.encode(descriptor.default)
        except UNENCODABLE as error:
            raise self._entry.refusal(f"the default does not fit: {error}") from None

    def value(self) -> Any:
        """The value, or the default if there is none."""
        data = self._entry.get()
        if data is None:
            data = self._default
        return None if data is None else self._serializer.decode(data)

    def update(self, value: object) -> None:
        """Replace the value; None clears (S3)."""
        if value is None:
            self._entry.remove()
            return
        try:
            data = self._serializer.encode(value)
        except UNENCODABLE as error:
            raise self._entry.refusal(error) from None
        self._entry.put(data)


class ListState(HeapState):
    """Elements per key, in the order in which they were added. Mutable.

    Answers to Flink's `ListState` and `HeapListState`. Invariant: there is an entry if and only if there is an
    element; a refused element or list changes nothing (S4).
    """

    def __init__(
        self, descriptor: ListStateDescriptor, serializer: TypeSerializer, table: StateTable
    ) -> None:
        super().__init__(table)
        self.descriptor = descriptor
        self._serializer = serializer

    def get(self) -> list[Any]:
        """Copies of the elements; an empty list if there are none."""
        cell: Cell[list[bytes]] | None = self._entry.get()
        return [] if cell is None else list(map(self._serializer.decode, cell.items))

    def add(self, element: object) -> None:
        """Append an element, which cannot be None."""
        self._append([self._encoded(element)])

    def add_all(self, elements: Iterable[object]) -> None:
        """Append all elements, or none if one is refused."""
        self._append(self._all_encoded(elements))

    def update(self, elements: Iterable[object]) -> None:
        """Replace all elements."""
        self._entry.put_items(self._all_encoded(elements))

    def merge_namespaces(self, target: object, sources: Iterable[object]) -> None:
        """Append the elements of the sources to the target's, and remove the sources (S7)."""
        self._entry.merge(target, sources, self._merged)

    def _merged(self, cells: list[Cell[list[bytes]]]) -> Cell[list[bytes]]:
        return Cell(self.table.map.version, [data for cell in cells for data in cell.items])

    def _append(self, data: list[bytes]) -> None:
        cell = self._entry.cell_to_write()
        if cell is None:
            self._entry.put_items(data)
        else:
            cell.items += data

    def _all_encoded(self, elements: Iterable[object]) -> list[bytes]:
        if elements is None:
            raise self._entry.refusal("None is no list of elements; give an empty one, or clear()")
        return list(map(self._encoded, elements))

    def _encoded(self, element: object) -> bytes:
        if element is None:
            raise self._entry.refusal("None cannot be an element of a list")
        try:
            return self._serializer.encode(element)
        except UNENCODABLE as error:
            raise self._entry.refusal(error) from None


class MergingState(HeapState):
    """One accumulator per key, the common part of reducing and aggregating state. Mutable.

    Answers to Flink's `AbstractHeapMergingState`. Invariant: if a function of the user raises, the stored value is
    unchanged (S5).
    """

    def __init__(
        self, serializer: TypeSerializer, table: StateTable, *, merge: Callable[[Any, Any], Any]
    ) -> None:
        super().__init__(table)
        self._serializer = serializer
        self._merge = merge

    def get_internal(self) -> Any:
        """The stored accumulator, or None."""
        data = self._entry.get()
        return None if data is None else self._serializer.decode(data)

    def update_internal(self, stored: object) -> None:
        """Replace the stored accumulator."""
        self._entry.put(self._encoded(stored))

    def merge_namespaces(self, target: object, sources: Iterable[object]) -> None:
        """Merge the sources into the target, and remove the sources (S7)."""
        self._entry.merge(target, sources, self._merged)

    def _merged(self, stored: list[bytes]) -> bytes:
        return self._encoded(reduce(self._merge, map(self._serializer.decode, stored)))

    def _encoded(self, stored: object) -> bytes:
        try:
            return self._serializer.encode(stored)
        except UNENCODABLE as error:
            raise self._entry.refusal(error) from None


class ReducingState(MergingState):
    """One value per key, combined with each value that is added. Mutable.

    Answers to Flink's `ReducingState` and `HeapReducingState`. Invariant: the value is the reduction of all values
    added, in order; if the function raises, it is unchanged (S5).
    """

    def __init__(
        self, descriptor: ReducingStateDescriptor, serializer: TypeSerializer, table: StateTable
    ) -> None:
        super().__init__(serializer, table, merge=descriptor.reduce)
        self.descriptor = descriptor

    def get(self) -> Any:
        """The value, or None."""
        return self.get_internal()

    def add(self, value: object) -> None:
        """Combine the value with `value`; None clears, as in Flink."""
        if value is None:
            self.clear()
            return
        data = self._entry.get()
        self.update_internal(value if data is None else self._merge(self._serializer.decode(data), value))


class AggregatingState(MergingState):
    """An accumulator per key, to which values are added. Mutable.

    Answers to Flink's `AggregatingState` and `HeapAggregatingState`. Invariant: only the accumulator is stored. The
    function gets a copy of it, so if the function raises, the stored one is unchanged (S5).
    """

    def __init__(
        self, descriptor: AggregatingStateDescriptor, serializer: TypeSerializer, table: StateTable
    ) -> None:
        super().__init__(serializer, table, merge=self._merge_accumulators)
        self.descriptor = descriptor
        self._aggregate = descriptor.aggregate

    def get(self) -> Any:
        """The result, or None if nothing was added."""
        data = self._entry.get()
        return None if data is None else self._aggregate.get_result(self._serializer.decode(data))

    def add(self, value: object) -> None:
        """Add `value` to the accumulator; None clears, as in Flink."""
        if value is None:
            self.clear()
            return
        accumulator = self.get_internal()
        if accumulator is None:
            accumulator = self._aggregate.create_accumulator()
        self.update_internal(self._aggregate.add(value, accumulator))

    def _merge_accumulators(self, into: object, other: object) -> Any:
        """Looks up `merge` only when namespaces are merged: functions without it can be used otherwise."""
        return self._aggregate.merge(into, other)
