"""The states of a keyed backend by name: restored ones, requested ones, and the migration from one to the other.

Answers to the registration part of Flink's `AbstractKeyedStateBackend` and `HeapKeyedStateBackend`, and to
`StateSerializerProvider`. Invariant: a name has one table and, once requested, one state object over it (S2).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from reference_impl.errors import StateError, StateMigrationException, WrongState
from reference_impl.state.copy_on_write_state_map import CopyOnWriteStateMap
from reference_impl.state.handles import StateMetaInfo
from reference_impl.state.key_groups import InternalKeyContext
from reference_impl.state.keyed_state import KeyedState, create_state, meta_of
from reference_impl.state.schema import Compatibility, Schema, compatibility
from reference_impl.state.serializer import TypeSerializer
from reference_impl.state.state_descriptor import StateDescriptor
from reference_impl.state.state_table import StateTable
from reference_impl.state.ttl_state_factory import CreateWithTtl, create_state_with_ttl


def migrate(table: StateTable, meta: StateMetaInfo, serializer: TypeSerializer) -> None:
    """Make restored values readable as the registered type, rewriting them if necessary.

    Raises StateMigrationException if they cannot be read.

    Answers to Flink's `StateSerializerProvider` and to the check of `AbstractKeyedStateBackend` at registration.
    Invariant: afterwards all values of the table have the new type; on an error nothing has changed (S2).
    """
    old = table.meta
    match _compatibility(new=meta, old=old):
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


def _compatibility(*, new: StateMetaInfo, old: StateMetaInfo) -> Compatibility:
    """The kind of state and the type of a map's keys cannot change."""
    if (new.kind, new.key_schema) != (old.kind, old.key_schema):
        return Compatibility.INCOMPATIBLE
    return compatibility(new=new.schema, old=old.schema)


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
        now_ms: Callable[[], int] | None,
        *,
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
