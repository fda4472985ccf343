"""The table of one keyed state: its metadata and its entries for all keys.

Answers to Flink's `StateTable`. Invariant: there is one table for each name, from the restore on. A restored state
that no operator has registered has a table too, and the next snapshot contains its entries unchanged (S9).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Generic, TypeVar

from reference_impl.errors import StateError
from reference_impl.state.copy_on_write_state_map import (
    Cell,
    CopyOnWriteStateMap,
    EntryKey,
    StateMapSnapshot,
    Stored,
)
from reference_impl.state.key_groups import HashableKey, Identity, InternalKeyContext, identity_of, value_of
from reference_impl.state.serializer import UNENCODABLE, TypeSerializer
from reference_impl.state.snapshots import (
    Block,
    SnapshotTransformer,
    StateMetaInfo,
    StoredItems,
    decode_block,
    encode_block,
)

Change = Callable[[Any], Any]
"""Maps a stored value to its replacement; both are bytes, or None, which occurs only inside maps."""


class StateTable:
    """The entries of the state `name`. Mutable."""

    def __init__(
        self, *, name: str, meta: StateMetaInfo, context: InternalKeyContext, state_map: CopyOnWriteStateMap
    ) -> None:
        self.name = name
        self.meta = meta
        self.context = context
        self.map = state_map
        self.snapshot_transformer: SnapshotTransformer | None = None

    def __len__(self) -> int:
        """The number of entries; counts them."""
        return len(self.map)

    def get(self, key: HashableKey, namespace: object) -> StoredItems | None:
        """The value stored for `key` and `namespace`, or None."""
        position, entry_key = self._place(key, namespace)
        stored: Stored | None = self.map.get(position, entry_key)
        return None if stored is None else _items(stored)

    def put(self, key: HashableKey, namespace: object, items: StoredItems) -> None:
        position, entry_key = self._place(key, namespace)
        self.map.put(position, entry_key, self._stored(items))

    def remove(self, key: HashableKey, namespace: object) -> None:
        position, entry_key = self._place(key, namespace)
        self.map.remove(position, entry_key)

    def lazy_entries(self) -> Iterator[tuple[HashableKey, object, StoredItems]]:
        """Key, namespace and value of each entry; entries may be added, changed and removed during the iteration.

        An entry added meanwhile may or may not appear; a changed one appears in its old or its new form.
        """
        for chunk in self.map.chunks():
            for entry_key, stored in list(chunk.entries.items()):
                namespace, key = _key_of(entry_key)
                yield key, namespace, _items(stored)

    def keys(self, namespace: object) -> Iterator[object]:
        """The keys with an entry in that namespace; entries may be added and removed during the iteration."""
        wanted = None if namespace is None else identity_of(namespace)
        for chunk in self.map.chunks():
            for entry_key in list(chunk.entries):
                among, identity = entry_key if isinstance(entry_key, tuple) else (None, entry_key)
                if among == wanted:
                    yield value_of(identity)

    def rewrite(self, change: Change) -> None:
        """Replace each stored value, for a migration (S2)."""
        self.map.rewrite(lambda stored: self._changed(stored, change))

    def restore(self, key_group: int, blocks: Iterable[Block]) -> None:
        """Add the entries that a snapshot holds for one of this subtask's key groups."""
        state_map, position_of = self.map, self.context.position_of
        for block in blocks:
            for key, items in decode_block(block):
                identity = key[1] if type(key) is tuple else key
                state_map.put(position_of(identity, key_group), key, self._stored(items))  # type: ignore[arg-type]

    def snapshot(self) -> StateTableSnapshot:
        """Capture the current entries; the snapshot can be read later, on any thread."""
        return StateTableSnapshot(self.meta, self.map.snapshot(), self.snapshot_transformer)

    def _place(self, key: HashableKey, namespace: object) -> tuple[int, EntryKey]:
        identity, position = self.context.place(key)
        return position, identity if namespace is None else (identity_of(namespace), identity)

    def _stored(self, items: StoredItems) -> Stored:
        return items if type(items) is bytes else Cell(self.map.version, items)

    def _changed(self, stored: Stored, change: Change) -> Stored:
        items = _items(stored)
        match items:
            case list():
                return self._stored([change(data) for data in items])
            case dict():
                return self._stored({key: change(data) for key, data in items.items()})
        changed: bytes = change(items)
        return changed


class StateTableSnapshot:
    """A table as it was at one moment; can be read once. Mutable: releases what has been read."""

    def __init__(
        self, meta: StateMetaInfo, state_map: StateMapSnapshot, transform: SnapshotTransformer | None
    ) -> None:
        self.meta = meta
        self._map = state_map
        self._transform = transform

    def blocks(self, key_group_offset: int) -> Generator[None, None, list[Block]]:
        """Encode the entries of one key group, one chunk for each step."""
        blocks = []
        for chunk in self._map.chunks_of(key_group_offset):
            if chunk.entries:
                block = encode_block(chunk, self.meta.kind, self._transform)
                blocks += [] if block is None else [block]
            yield
        return blocks


E = TypeVar("E", bound=Stored)
"""What a state stores for one key: bytes, or the cell of a list or map."""
T = TypeVar("T", list[bytes], dict[Identity, bytes | None])


class KeyedEntry(Generic[E]):
    """The entry of the current key and one namespace in a table. Mutable: the namespace can be changed."""

    def __init__(self, table: StateTable) -> None:
        self.table = table
        self._map = table.map
        self._context = table.context
        self._namespace: Identity | None = None

    @property
    def namespace(self) -> object:
        """None stands for the default namespace."""
        return None if self._namespace is None else value_of(self._namespace)

    @namespace.setter
    def namespace(self, namespace: object) -> None:
        self._namespace = None if namespace is None else identity_of(namespace)

    def get(self) -> E | None:
        """The stored bytes or cell, which the caller must not change; None if there is none."""
        context, state_map = self._context, self._map
        position = context.position
        if position is None:
            raise context.no_key(self.table.name)
        entries: dict[EntryKey, E] = state_map.directory[position >> state_map.shift].entries
        if self._namespace is None:
            return entries.get(context.identity)
        return entries.get((self._namespace, context.identity))

    def put(self, stored: Stored) -> None:
        """Store a value. The steps of `CopyOnWriteStateMap.put` are inlined, since this runs for each record."""
        context, state_map = self._context, self._map
        position = context.position
        if position is None:
            raise context.no_key(self.table.name)
        chunk = state_map.directory[position >> state_map.shift]
        if chunk.version < state_map.version:
            chunk = state_map.own(position, chunk)
        entries = chunk.entries
        if self._namespace is None:
            entries[context.identity] = stored
        else:
            entries[self._namespace, context.identity] = stored
        if len(entries) > chunk.entries_max:
            state_map.split_full(position)

    def remove(self) -> None:
        """Without effect if nothing is stored."""
        self._map.remove(*self.place())

    def put_items(self, items: list[bytes] | dict[Identity, bytes | None]) -> None:
        """Store a list or map; an empty one removes the entry."""
        if items:
            self.put(Cell(self._map.version, items))
        else:
            self.remove()

    def cell_to_write(self) -> Cell[T] | None:
        """The cell, for the caller to change; None if there is none."""
        return self._map.cell_to_write(*self.place())

    def merge(self, target: object, sources: Iterable[object], combine: Callable[[list[E]], Stored]) -> None:
        """Combine what is stored under `target` and `sources`, store it under `target`, and remove the sources (S7).

        `combine` gets the stored values, the target's first. If it raises, nothing changes.
        """
        selected = self._namespace
        try:
            found: dict[Identity | None, E] = {}
            for namespace in (target, *sources):
                self.namespace = namespace
                if (stored := self.get()) is not None:
                    found[self._namespace] = stored
            combined = combine(list(found.values())) if found else None
            for namespace in found:
                self._namespace = namespace
                self.remove()
            self.namespace = target
            if combined is not None:
                self.put(combined)
        finally:
            self._namespace = selected

    def place(self) -> tuple[int, EntryKey]:
        """Position and key of the current entry, which stay valid when another key is selected."""
        context = self._context
        if context.position is None:
            raise context.no_key(self.table.name)
        identity = context.identity
        return context.position, identity if self._namespace is None else (self._namespace, identity)

    def refusal(self, problem: object) -> StateError:
        """The error for a value that the state cannot hold."""
        return StateError(str(problem), operator=self._context.operator, state=self.table.name)


D = TypeVar("D")


class HeapState(Generic[D, E]):
    """Common part of the keyed states: the entry of the current key and namespace in `table`. Mutable.

    Answers to Flink's `AbstractHeapState`. Invariant: accesses concern the current key and the namespace that was set.
    """

    def __init__(self, descriptor: D, serializer: TypeSerializer, table: StateTable) -> None:
        self.descriptor = descriptor
        self.table = table
        self.serializer = serializer
        self._entry: KeyedEntry[E] = KeyedEntry(table)

    @property
    def current_namespace(self) -> object:
        return self._entry.namespace

    def set_current_namespace(self, namespace: object) -> None:
        self._entry.namespace = namespace

    def clear(self) -> None:
        self._entry.remove()

    def _encoded(self, value: object) -> bytes:
        try:
            return self.serializer.encode(value)
        except UNENCODABLE as error:
            raise self._entry.refusal(error) from None


class MergeableState(HeapState[D, E]):
    """A state whose namespaces can be merged. Mutable."""

    def merge_namespaces(self, target: object, sources: Iterable[object]) -> None:
        """Merge the sources into the target, a list in their order, and remove the sources (S7)."""
        self._entry.merge(target, sources, self._merged)

    def _merged(self, stored: list[E]) -> Stored:
        raise NotImplementedError


def _items(stored: Stored) -> StoredItems:
    """The content of a cell, or the value itself."""
    return stored if isinstance(stored, bytes) else stored.items


def _key_of(entry_key: EntryKey) -> tuple[object, HashableKey]:
    """Namespace and key."""
    if type(entry_key) is tuple:
        return value_of(entry_key[0]), value_of(entry_key[1])
    return None, value_of(entry_key)  # type: ignore[arg-type]  # not a tuple
