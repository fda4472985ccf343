"""The keyed state of one subtask: its states by name, current key and snapshots, and how a function requests it.

Answers to Flink's `AbstractKeyedStateBackend` and `HeapKeyedStateBackend`. Invariant: each access concerns the current
key (S1); a snapshot is the complete state at the moment when `snapshot` returned, including states that no operator
has registered (S9); a restore takes exactly the key groups of this subtask.

`snapshot` itself only copies directories, which takes some microseconds for each thousand keys; the returned future
encodes the entries, some hundred keys in each slice.

Answers to Flink's `KeyedStateStore` and `DefaultKeyedStateStore`. Invariant: all states have the default namespace;
the operator selects the key (S1).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, NotRequired, TypedDict, Unpack

import msgspec

from reference_impl.checkpoint_events import CheckpointOptions
from reference_impl.errors import StateError, StateMigrationException, WrongState
from reference_impl.state.copy_on_write_state_map import CopyOnWriteStateMap
from reference_impl.state.key_groups import HashableKey, InternalKeyContext, KeyGroupRange
from reference_impl.state.keyed_state import (
    AggregatingState,
    KeyedState,
    ListState,
    MapState,
    ReducingState,
    ValueState,
    create_state,
    meta_of,
)
from reference_impl.state.serializer import Compatibility, Schema, TypeSerializer, compatibility
from reference_impl.state.snapshots import Block, KeyedStateHandle, SnapshotFuture, StateMetaInfo
from reference_impl.state.state_descriptor import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from reference_impl.state.state_table import StateTable, StateTableSnapshot
from reference_impl.state.ttl_state_factory import CreateWithTtl, create_state_with_ttl
from reference_impl.state.ttl_states import (
    TtlAggregatingState,
    TtlListState,
    TtlMapState,
    TtlReducingState,
    TtlValueState,
)


class RegistryParts(TypedDict):
    """The clock of states with a time to live, and what creates such states and the maps of all."""

    now_ms: NotRequired[Callable[[], int] | None]
    create_with_ttl: NotRequired[CreateWithTtl]
    create_state_map: NotRequired[CreateStateMap]


class KeyedStateBackend:
    """Created for one subtask, restored at most once, used on the task's thread. Mutable."""

    def __init__(
        self,
        *,
        operator: str,
        max_parallelism: int,
        key_group_range: KeyGroupRange | None = None,
        key_type: object = Any,
        **parts: Unpack[RegistryParts],
    ) -> None:
        """`now_ms` is the clock for states with a time to live; without such states it is not needed."""
        whole = KeyGroupRange(start=0, end=max(max_parallelism - 1, 0))
        self.operator = operator
        self.context = InternalKeyContext(
            operator=operator,
            key_group_range=whole if key_group_range is None else key_group_range,
            max_parallelism=max_parallelism,
            key_type=key_type,
        )
        self.set_current_key = self.context.set_current_key
        """Select the key of the following accesses; StateError if another subtask owns it or it cannot be a key."""
        self._registry = KeyedStateRegistry(self.context, **parts)

    @property
    def current_key(self) -> HashableKey:
        """The key of the next access; None before the first selection."""
        return self.context.current_key

    @property
    def current_key_group(self) -> int:
        """The key group of the current key; StateError without a key."""
        return self.context.current_key_group

    @property
    def key_group_range(self) -> KeyGroupRange:
        """The key groups of this subtask."""
        return self.context.key_group_range

    @property
    def max_parallelism(self) -> int:
        """The number of key groups of the operator."""
        return self.context.max_parallelism

    @property
    def num_keyed_state_entries(self) -> int:
        """The number of entries over all states, keys and namespaces; counts them."""
        return sum(map(len, self._registry.tables.values()))

    def get_partitioned_state(self, namespace: object, descriptor: StateDescriptor) -> Any:
        """The state that `descriptor` requests, set to `namespace`; None is the default namespace."""
        state = self.get_or_create_keyed_state(descriptor)
        state.set_current_namespace(namespace)
        return state

    def get_or_create_keyed_state(self, descriptor: StateDescriptor) -> Any:
        """The state with that name, with its restored content (S2, C45).

        StateMigrationException if the restored state is of another kind, or its type cannot be read as the requested
        one.
        """
        return self._registry.state(descriptor)

    def get_keys(self, state: str, namespace: object = None) -> Iterator[Any]:
        """The keys that have an entry in a state; entries may be added and removed during the iteration."""
        table = self._registry.tables.get(state)
        return iter(()) if table is None else table.keys(namespace)

    def apply_to_all_keys(
        self, namespace: object, descriptor: StateDescriptor, function: Callable[[Any, Any], None]
    ) -> None:
        """Call `function` with each key and the state, with that key selected; it may change the state."""
        state = self.get_partitioned_state(namespace, descriptor)
        with self.context.selection_kept():
            for key in tuple(self.get_keys(descriptor.name, namespace)):
                self.set_current_key(key)
                function(key, state)

    def snapshot(
        self,
        checkpoint_id: int,  # noqa: ARG002  # part of the protocol; a backend that shares files names them by it
        timestamp: int = 0,  # noqa: ARG002  # part of the protocol
        options: CheckpointOptions | None = None,  # noqa: ARG002  # part of the protocol
    ) -> SnapshotFuture[KeyedStateHandle | None]:
        """Capture all states; the future encodes them. Its result is None if they are empty (C10)."""
        tables = {name: table.snapshot() for name, table in self._registry.tables.items()}
        return SnapshotFuture(self._write(tables))

    def restore(self, handles: Iterable[KeyedStateHandle | None]) -> None:
        """Take this subtask's key groups from the handles of all former subtasks; called before any access."""
        if self._registry.tables:
            raise WrongState(f"operator {self.operator!r} has state already; restore() comes first, and once")
        restored: dict[int, None] = {}
        for handle in handles:
            if handle is not None:
                self._refuse_unreadable(handle)
                self._restore(handle, restored)

    def dispose(self) -> None:
        """Drop all states; later accesses fail."""
        self._registry.dispose()

    def _write(self, tables: dict[str, StateTableSnapshot]) -> Generator[None, None, KeyedStateHandle | None]:
        key_groups: dict[int, dict[str, list[Block]]] = {}
        for offset, key_group in enumerate(self.key_group_range):
            written: dict[str, list[Block]] = {}
            for name, table in tables.items():
                if blocks := (yield from table.blocks(offset)):
                    written[name] = blocks
            if written:
                key_groups[key_group] = written
            yield  # empty key groups take time too, and there may be thousands
        if not key_groups:
            return None
        return KeyedStateHandle(
            key_group_range=self.key_group_range,
            max_parallelism=self.max_parallelism,
            key_schema=self.context.key_serializer.schema,
            states={name: table.meta for name, table in tables.items()},
            key_groups=key_groups,
        )

    def _restore(self, handle: KeyedStateHandle, restored: dict[int, None]) -> None:
        for name, meta in handle.states.items():
            known = self._registry.table(name, meta)
            if known.meta != meta:
                raise StateMigrationException(
                    f"one subtask left it as {meta}, another as {known.meta}; restore at the old parallelism first",
                    operator=self.operator,
                    state=name,
                )
        for key_group, blocks in handle.key_groups.items():
            if key_group not in self.key_group_range:
                continue
            if key_group in restored:
                raise StateError(
                    f"key group {key_group} is in two of the restored handles; give each key group once",
                    operator=self.operator,
                )
            restored[key_group] = None
            for name, written in blocks.items():
                self._registry.tables[name].restore(key_group, written)

    def _refuse_unreadable(self, handle: KeyedStateHandle) -> None:
        if handle.max_parallelism != self.max_parallelism:
            raise StateMigrationException(
                f"its maximum parallelism was {handle.max_parallelism} and is {self.max_parallelism} now, so that"
                " keys would be in other key groups; set it to the old value",
                operator=self.operator,
            )
        keys = self.context.key_serializer.schema
        if compatibility(new=keys, old=handle.key_schema) is not Compatibility.AS_IS:
            raise StateMigrationException(
                f"its keys were {handle.key_schema} and are {keys} now; the type of a key cannot change",
                operator=self.operator,
            )


def migrate(table: StateTable, meta: StateMetaInfo, serializer: TypeSerializer) -> None:
    """Make restored values readable as the registered type, rewriting them if necessary.

    Raises StateMigrationException if they cannot be read.

    Answers to Flink's `StateSerializerProvider` and to the check of `AbstractKeyedStateBackend` at registration.
    Invariant: afterwards all values of the table have the new type; on an error nothing has changed (S2).
    """
    old = table.meta
    # The kind of state and the type of a map's keys cannot change.
    same_kind = (meta.kind, meta.key_schema) == (old.kind, old.key_schema)
    match compatibility(new=meta.schema, old=old.schema) if same_kind else Compatibility.INCOMPATIBLE:
        case Compatibility.INCOMPATIBLE:
            raise _refusal(
                table, f"it was restored as {old} and is registered as {meta}, which cannot read it"
            )
        case Compatibility.AFTER_MIGRATION:
            try:
                table.rewrite(lambda data: _migrated(data, serializer, old.schema))
            except (TypeError, ValueError, msgspec.MsgspecError) as error:
                raise _refusal(table, f"a value of it, restored as {old}, is no {meta}: {error}") from error
    table.meta = meta


def _migrated(data: bytes | None, serializer: TypeSerializer, old: Schema) -> bytes | None:
    """A value inside a map may be None; if new values have timestamps, it gets one too."""
    if data is not None:
        return serializer.migrate(data, old)
    if serializer.schema.kind == "ttl" and old.kind != "ttl":
        stamped = serializer.migrate(_NONE, old)
        serializer.decode(stamped)  # raises here what a read would raise (S6)
        return stamped
    return None


def _refusal(table: StateTable, problem: str) -> StateMigrationException:
    return StateMigrationException(
        f"{problem}; keep the old type, or give the state another name",
        operator=table.context.operator,
        state=table.name,
    )


_NONE = msgspec.msgpack.encode(None)


CreateStateMap = Callable[[int], CopyOnWriteStateMap]
"""Creates the map of one state, for that number of key groups."""


class KeyedStateRegistry:
    """The states of one keyed backend by name, restored or requested. Mutable: grows.

    Answers to the registration part of Flink's `AbstractKeyedStateBackend` and `HeapKeyedStateBackend`. Invariant: a
    name has one table and, once requested, one state object over it; a second request returns that object, or raises
    if it asks for something else (S2).
    """

    def __init__(
        self,
        context: InternalKeyContext,
        *,
        now_ms: Callable[[], int] | None = None,
        create_with_ttl: CreateWithTtl = create_state_with_ttl,
        create_state_map: CreateStateMap = CopyOnWriteStateMap,
    ) -> None:
        self.tables: dict[str, StateTable] = {}
        """By name, restored or requested."""
        self._context = context
        self._now_ms = now_ms
        self._create_with_ttl = create_with_ttl
        self._create_state_map = create_state_map
        self._is_disposed = False
        self._registered: dict[str, tuple[StateDescriptor, KeyedState]] = {}

    def state(self, descriptor: StateDescriptor) -> KeyedState:
        """The state with that name; created at the first request."""
        first, state = self._registered.get(getattr(descriptor, "name", ""), (None, None))
        if state is None:
            state = self._create(descriptor)
            self._registered[descriptor.name] = descriptor, state
        elif descriptor is not first:
            self._refuse_another(descriptor)
        return state

    def table(self, name: str, meta: StateMetaInfo) -> StateTable:
        """The table with that name; created from `meta` if there is none."""
        table = self.tables.get(name)
        if self._is_disposed:
            raise WrongState(
                f"operator {self._context.operator!r}: the backend was disposed, with its states; create a new one"
            )
        if table is None:
            state_map = self._create_state_map(len(self._context.key_group_range))
            table = StateTable(name=name, meta=meta, context=self._context, state_map=state_map)
            self.tables[name] = table
        return table

    def dispose(self) -> None:
        """Forget all states, and refuse to create new ones."""
        self.tables.clear()
        self._registered.clear()
        self._is_disposed = True

    def _create(self, descriptor: StateDescriptor) -> KeyedState:
        """Create the state, with or without TTL."""
        serializer = self._serializer_of(descriptor)
        if descriptor.ttl is None or not descriptor.ttl.is_enabled:
            return self._create_plain(descriptor, serializer)
        now_ms = self._clock_for(descriptor.name)
        return self._create_with_ttl(descriptor, create_state=self._create_plain, now_ms=now_ms)

    def _create_plain(self, descriptor: StateDescriptor, serializer: TypeSerializer) -> KeyedState:
        """Create a state whose values `serializer` stores."""
        meta = meta_of(descriptor, serializer)
        table = self.table(descriptor.name, meta)
        if table.meta != meta:
            migrate(table, meta, serializer)
        return create_state(descriptor, serializer, table)

    def _serializer_of(self, descriptor: StateDescriptor) -> TypeSerializer:
        if not isinstance(descriptor, StateDescriptor):
            raise StateError(
                f"a {type(descriptor).__name__} is no state descriptor; request a value, list, reducing,"
                " aggregating or map state",
                operator=self._context.operator,
                state=getattr(descriptor, "name", None),
            )
        try:
            serializer = descriptor.serializer
            meta_of(descriptor, serializer)  # the keys of a map have a type as well
        except TypeError as error:
            raise StateError(str(error), operator=self._context.operator, state=descriptor.name) from None
        return serializer

    def _refuse_another(self, descriptor: StateDescriptor) -> None:
        """Raise unless the descriptor asks for the same as the one that was registered."""
        meta = meta_of(descriptor, self._serializer_of(descriptor))
        registered = self.tables[descriptor.name].meta
        if meta != registered.without_stamps:
            raise StateMigrationException(
                f"it is registered as {registered} and requested again as {meta}; use one descriptor, or another name",
                operator=self._context.operator,
                state=descriptor.name,
            )

    def _clock_for(self, state: str) -> Callable[[], int]:
        if self._now_ms is None:
            raise StateError(
                "it has a time to live, but the backend has no clock; pass now_ms to the backend",
                operator=self._context.operator,
                state=state,
            )
        return self._now_ms


class RequestsStates:
    """Requests states of each kind; `state_of` says from where."""

    __slots__ = ()

    def state_of(self, descriptor: StateDescriptor, kind: type[StateDescriptor]) -> Any:
        raise NotImplementedError

    def get_state(self, descriptor: ValueStateDescriptor) -> ValueState | TtlValueState:
        state: ValueState | TtlValueState = self.state_of(descriptor, ValueStateDescriptor)
        return state

    def get_list_state(self, descriptor: ListStateDescriptor) -> ListState | TtlListState:
        state: ListState | TtlListState = self.state_of(descriptor, ListStateDescriptor)
        return state

    def get_reducing_state(self, descriptor: ReducingStateDescriptor) -> ReducingState | TtlReducingState:
        state: ReducingState | TtlReducingState = self.state_of(descriptor, ReducingStateDescriptor)
        return state

    def get_aggregating_state(
        self, descriptor: AggregatingStateDescriptor
    ) -> AggregatingState | TtlAggregatingState:
        state: AggregatingState | TtlAggregatingState = self.state_of(descriptor, AggregatingStateDescriptor)
        return state

    def get_map_state(self, descriptor: MapStateDescriptor) -> MapState | TtlMapState:
        state: MapState | TtlMapState = self.state_of(descriptor, MapStateDescriptor)
        return state


class KeyedStateStore(RequestsStates):
    """Requests states from `backend`."""

    def __init__(self, backend: KeyedStateBackend) -> None:
        self._backend = backend

    def state_of(self, descriptor: StateDescriptor, kind: type[StateDescriptor]) -> KeyedState:
        """Refuse a descriptor of another kind here instead of at its first use."""
        if not isinstance(descriptor, kind):
            raise StateError(
                f"a {type(descriptor).__name__} cannot describe this kind of state; give a {kind.__name__}",
                operator=self._backend.operator,
                state=getattr(descriptor, "name", None),
            )
        state: KeyedState = self._backend.get_partitioned_state(None, descriptor)
        return state
