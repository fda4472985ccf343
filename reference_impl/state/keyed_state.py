"""The kinds of keyed state: value, list, reducing, aggregating and map.

Answers to Flink's `MapState` and `HeapMapState`. Invariant: something is stored if and only if there is an entry; a
view or iterator keeps the key and namespace with which it was created (S6).

Answers to Flink's `State`, `InternalKvState`, `ValueState`, `ListState`, `ReducingState`, `AggregatingState` and their
`Heap...` classes, and to the creation of states in `HeapKeyedStateBackend`. Invariant: each kind of descriptor has one
class of state, with or without TTL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any, Generic, Protocol, TypeVar

from reference_impl.errors import WrongState
from reference_impl.state.copy_on_write_state_map import Cell, CopyOnWriteStateMap, EntryKey
from reference_impl.state.key_groups import Identity, identity_of, value_of
from reference_impl.state.serializer import UNENCODABLE, PlainSerializer, ScalarSerializer, TypeSerializer
from reference_impl.state.snapshots import StateMetaInfo
from reference_impl.state.state_descriptor import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from reference_impl.state.state_table import HeapState, MergeableState, StateTable

MapCell = Cell[dict[Identity, bytes | None]]
P = TypeVar("P")
K = TypeVar("K")
Project = Callable[[Identity, Any], P]
"""What an iterator returns for an entry: key, value or both."""


class MapState(HeapState[MapStateDescriptor, MapCell]):
    """A map per key. Mutable. Map keys differ by type too: 1 is not True."""

    def __init__(self, descriptor: MapStateDescriptor, serializer: TypeSerializer, table: StateTable) -> None:
        super().__init__(descriptor, serializer, table)
        self._keys = descriptor.key_serializer
        is_simple = isinstance(self._keys, PlainSerializer | ScalarSerializer)
        self._identity_of: Callable[[Any], Identity] = identity_of if is_simple else self._keys.encode
        self._key_of: Callable[[Any], Any] = value_of if is_simple else self._keys.decode

    def get(self, key: object) -> Any:
        """A copy of the value; None if there is none or it is None."""
        return self._decoded(self._items().get(self._identity(key)))

    def contains(self, key: object) -> bool:
        """Whether there is an entry, even with the value None."""
        return self._identity(key) in self._items()

    def is_empty(self) -> bool:
        return not self._items()

    def put(self, key: object, value: object) -> None:
        """Replace the value, which may be None."""
        self._put({self._identity_to_write(key): self._encoded_or_none(value)})

    def put_all(self, values: Mapping[K, object]) -> None:
        """Put all entries, or none if one is refused."""
        if values is None:
            raise self._entry.refusal("None is no mapping; give an empty one, or clear()")
        self._put(
            {self._identity_to_write(key): self._encoded_or_none(value) for key, value in values.items()}
        )

    def remove(self, key: object) -> None:
        self.entries_here().remove(self._identity(key))

    def entries(self) -> MapView[tuple[object, object]]:
        """Pairs of key and value, in the order in which the keys were first put."""
        return self._view(lambda key, data: (self._key_of(key), self._decoded(data)))

    def keys(self) -> MapView[object]:
        """The keys, in the order in which they were first put."""
        return self._view(lambda key, _: self._key_of(key))

    def values(self) -> MapView[object]:
        """The values, in the order in which their keys were first put."""
        return self._view(lambda _, data: self._decoded(data))

    def iterator(self) -> MapIterator[tuple[object, object]]:
        """An iterator over the entries that can remove the one it returned last."""
        return iter(self.entries())

    def entries_here(self) -> MapEntries:
        """The stored entries of the current key and namespace; still the same ones after another key is selected."""
        return MapEntries(self.table.map, self._entry.place())

    def key_of(self, identity: Identity) -> object:
        """The user's key with that identity."""
        return self._key_of(identity)

    def _view(self, project: Project[P]) -> MapView[P]:
        return MapView(self.entries_here(), project)

    def _items(self) -> dict[Identity, bytes | None]:
        cell: MapCell | None = self._entry.get()
        return {} if cell is None else cell.items

    def _put(self, items: dict[Identity, bytes | None]) -> None:
        cell: MapCell | None = self._entry.cell_to_write()
        if cell is not None:
            cell.items |= items
        elif items:
            self._entry.put_items(items)

    def _decoded(self, data: bytes | None) -> object:
        return None if data is None else self.serializer.decode(data)

    def _encoded_or_none(self, value: object) -> bytes | None:
        return None if value is None else self._encoded(value)

    def _identity(self, key: object) -> Identity:
        try:
            return self._identity_of(key)
        except UNENCODABLE as error:
            raise self._entry.refusal(error) from None

    def _identity_to_write(self, key: object) -> Identity:
        """The identity of a key to be stored, after a check of its type."""
        try:
            self._keys.encode(key)
        except UNENCODABLE as error:
            raise self._entry.refusal(error) from None
        return self._identity_of(key)


class MapEntries:
    """The map stored under one key and namespace, whatever is selected later. Mutable: it changes the state itself."""

    def __init__(self, state_map: CopyOnWriteStateMap, place: tuple[int, EntryKey]) -> None:
        self._map = state_map
        self._place = place

    @property
    def items(self) -> dict[Identity, bytes | None]:
        """The encoded values by key identity; must not be changed, and must be read again after each change."""
        cell: MapCell | None = self._map.get(*self._place)
        return {} if cell is None else cell.items

    def replace(self, identity: Identity, data: bytes) -> None:
        """Replace the value of an existing entry."""
        cell: MapCell | None = self._map.cell_to_write(*self._place)
        assert cell is not None
        cell.items[identity] = data

    def remove(self, identity: Identity) -> None:
        """Remove an entry; with the last one, remove the whole map (FLINK-21413)."""
        if identity not in self.items:
            return
        cell: MapCell | None = self._map.cell_to_write(*self._place)
        assert cell is not None
        del cell.items[identity]
        if not cell.items:
            self._map.remove(*self._place)


class MapView(Generic[P]):
    """A live view of a map: each iteration starts anew, each length is counted anew."""

    def __init__(self, entries: MapEntries, project: Project[P]) -> None:
        self._entries = entries
        self._project = project

    def __len__(self) -> int:
        return len(self._entries.items)

    def __iter__(self) -> MapIterator[P]:
        return MapIterator(self._entries, self._project)


class MapIterator(Generic[P]):
    """Iterates once over a map. Mutable.

    Entries put during the iteration are not visited, removed ones neither; a changed value appears as it is then.
    """

    def __init__(self, entries: MapEntries, project: Project[P]) -> None:
        self._entries = entries
        self._project = project
        self._ahead = iter(tuple(entries.items))
        self._next: Identity | None = None
        self._last: Identity | None = None
        """The entry returned last, which `remove` removes even after `has_next` (FLINK-10267)."""

    def __iter__(self) -> MapIterator[P]:
        return self

    def __next__(self) -> P:
        if not self.has_next():
            raise StopIteration
        assert self._next is not None
        self._last, self._next = self._next, None
        return self._project(self._last, self._value_of(self._last))

    def has_next(self) -> bool:
        """Whether there is a further entry; changes nothing."""
        items = self._entries.items
        while self._next is None or self._next not in items:
            self._next = next(self._ahead, None)
            if self._next is None:
                return False
        return True

    def remove(self) -> None:
        """Remove the entry returned last; WrongState before the first one, and on a second call."""
        if self._last is None:
            raise WrongState("there is no entry to remove: call next() first, and remove() once for each")
        self._entries.remove(self._last)
        self._last = None

    def _value_of(self, identity: Identity, /) -> object:
        return self._entries.items[identity]


class KeyedState(Protocol):
    """Any keyed state; accesses concern the current key and the namespace that was set."""

    table: StateTable

    @property
    def current_namespace(self) -> object:
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


class ValueState(HeapState[ValueStateDescriptor, bytes]):
    """One value per key. Mutable.

    Answers to Flink's `ValueState` and `HeapValueState`. Invariant: a read returns a copy of the last value written,
    or of the default; changing the copy changes nothing until it is written (S3).
    """

    def __init__(
        self, descriptor: ValueStateDescriptor, serializer: TypeSerializer, table: StateTable
    ) -> None:
        super().__init__(descriptor, serializer, table)
        try:
            self._default = None if descriptor.default is None else serializer.encode(descriptor.default)
        except UNENCODABLE as error:
            raise self._entry.refusal(f"the default does not fit: {error}") from None

    def value(self) -> Any:
        """The value, or the default if there is none."""
        data = self._entry.get()
        if data is None:
            data = self._default
        return None if data is None else self.serializer.decode(data)

    def update(self, value: object) -> None:
        """Replace the value; None clears (S3)."""
        if value is None:
            self._entry.remove()
            return
        self._entry.put(self._encoded(value))


class ListState(MergeableState[ListStateDescriptor, Cell[list[bytes]]]):
    """Elements per key, in the order in which they were added. Mutable.

    Answers to Flink's `ListState` and `HeapListState`. Invariant: there is an entry if and only if there is an
    element; a refused element or list changes nothing (S4).
    """

    def get(self) -> list[Any]:
        """Copies of the elements; an empty list if there are none."""
        cell = self._entry.get()
        return [] if cell is None else list(map(self.serializer.decode, cell.items))

    def add(self, element: object) -> None:
        """Append an element, which cannot be None."""
        self._append([self._encoded_element(element)])

    def add_all(self, elements: Iterable[object]) -> None:
        """Append all elements, or none if one is refused."""
        self._append(self._all_encoded(elements))

    def update(self, elements: Iterable[object]) -> None:
        """Replace all elements."""
        self._entry.put_items(self._all_encoded(elements))

    def _merged(self, cells: list[Cell[list[bytes]]]) -> Cell[list[bytes]]:
        return Cell(self.table.map.version, [data for cell in cells for data in cell.items])

    def _append(self, data: list[bytes]) -> None:
        cell: Cell[list[bytes]] | None = self._entry.cell_to_write()
        if cell is None:
            self._entry.put_items(data)
        else:
            cell.items += data

    def _all_encoded(self, elements: Iterable[object]) -> list[bytes]:
        if elements is None:
            raise self._entry.refusal("None is no list of elements; give an empty one, or clear()")
        return list(map(self._encoded_element, elements))

    def _encoded_element(self, element: object) -> bytes:
        if element is None:
            raise self._entry.refusal("None cannot be an element of a list")
        return self._encoded(element)


M = TypeVar("M", ReducingStateDescriptor, AggregatingStateDescriptor)


class MergingState(MergeableState[M, bytes]):
    """One accumulator per key, the common part of reducing and aggregating state. Mutable.

    Answers to Flink's `AbstractHeapMergingState`. Invariant: if a function of the user raises, the stored value is
    unchanged (S5).
    """

    def get_internal(self) -> Any:
        """The stored accumulator, or None."""
        data = self._entry.get()
        return None if data is None else self.serializer.decode(data)

    def update_internal(self, stored: object) -> None:
        """Replace the stored accumulator."""
        self._entry.put(self._encoded(stored))

    def _merged(self, stored: list[bytes]) -> bytes:
        return self._encoded(reduce(self._merge, map(self.serializer.decode, stored)))

    def _merge(self, into: object, other: object) -> object:
        raise NotImplementedError


class ReducingState(MergingState[ReducingStateDescriptor]):
    """One value per key, combined with each value that is added. Mutable.

    Answers to Flink's `ReducingState` and `HeapReducingState`. Invariant: the value is the reduction of all values
    added, in order; if the function raises, it is unchanged (S5).
    """

    def get(self) -> Any:
        """The value, or None."""
        return self.get_internal()

    def add(self, value: object) -> None:
        """Combine the value with `value`; None clears, as in Flink."""
        if value is None:
            self.clear()
            return
        data = self._entry.get()
        self.update_internal(value if data is None else self._merge(self.serializer.decode(data), value))

    def _merge(self, into: object, other: object) -> object:
        return self.descriptor.reduce(into, other)


class AggregatingState(MergingState[AggregatingStateDescriptor]):
    """An accumulator per key, to which values are added. Mutable.

    Answers to Flink's `AggregatingState` and `HeapAggregatingState`. Invariant: only the accumulator is stored. The
    function gets a copy of it, so if the function raises, the stored one is unchanged (S5).
    """

    def get(self) -> Any:
        """The result, or None if nothing was added."""
        data = self._entry.get()
        return None if data is None else self.descriptor.aggregate.get_result(self.serializer.decode(data))

    def add(self, value: object) -> None:
        """Add `value` to the accumulator; None clears, as in Flink."""
        if value is None:
            self.clear()
            return
        accumulator = self.get_internal()
        if accumulator is None:
            accumulator = self.descriptor.aggregate.create_accumulator()
        self.update_internal(self.descriptor.aggregate.add(value, accumulator))

    def _merge(self, into: object, other: object) -> object:
        """Looks up `merge` only when namespaces are merged: functions without it can be used otherwise."""
        return self.descriptor.aggregate.merge(into, other)
