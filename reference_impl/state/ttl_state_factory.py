"""Creates a state whose values expire: the inner state, the wrapper that users see, and the clean-up.

Answers to Flink's `TtlStateSnapshotTransformer` and `TtlIncrementalCleanup`.
Invariant: each decides on the value that is stored at that moment, and removes nothing that has not expired (S16).

Answers to Flink's `TtlStateFactory` and its `TtlSerializer`. Invariant: clean-up is set up at each start from the
current configuration, also for restored state; no checkpoint contains it (S17, FLINK-40354).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, Protocol

from reference_impl.state.key_groups import HashableKey
from reference_impl.state.serializer import (
    Schema,
    TtlValue,
    TypeSerializer,
    last_access_of,
    stamped,
    ttl_of,
    unstamped,
)
from reference_impl.state.snapshots import SnapshotTransformer, StoredItems
from reference_impl.state.state_descriptor import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    TtlTimeProvider,
    ValueStateDescriptor,
    expires_at,
)
from reference_impl.state.state_table import StateTable
from reference_impl.state.ttl_states import (
    TtlAggregateFunction,
    TtlAggregatingState,
    TtlDecorator,
    TtlListState,
    TtlMapState,
    TtlReduceFunction,
    TtlReducingState,
    TtlValueState,
)


class TtlStateSnapshotTransformer:
    """Returns the unexpired part of a stored value, of any kind of state; None if all has expired (S16).

    A stored value is bytes, a list of bytes or a dict of bytes, each with its timestamp in front.

    Answers to Flink's `TtlStateSnapshotTransformer` and to `getUnexpiredOrNull`. Invariant: it looks only at
    timestamps and changes nothing. If nothing has expired, it returns its argument itself.
    """

    def __init__(self, time_to_live_ms: int, now_ms: Callable[[], int]) -> None:
        self._time_to_live_ms = time_to_live_ms
        self._now_ms = now_ms

    def __call__(self, stored: StoredItems) -> StoredItems | None:
        now_ms = self._now_ms()
        match stored:
            case bytes():
                return stored if self._lives(stored, now_ms) else None
            case list():
                living: Any = [element for element in stored if self._lives(element, now_ms)]
            case dict():
                living = {
                    key: value
                    for key, value in stored.items()
                    if value is not None and self._lives(value, now_ms)
                }
            case _:
                raise TypeError(
                    f"a state stores a {type(stored).__name__}; this filter knows bytes, lists and dicts"
                )
        return stored if len(living) == len(stored) else living or None

    def _lives(self, data: bytes, now_ms: int) -> bool:
        return expires_at(last_access_of(data), self._time_to_live_ms) > now_ms


class TtlIncrementalCleanup:
    """Visits some entries at each access to a state and removes what has expired. Mutable: its position in the walk.

    Answers to Flink's `TtlIncrementalCleanup`. Invariant: it decides on what is stored at that moment, since the walk
    may show an older value, and an update in between must not be lost. Without accesses nothing is cleaned (S16).
    """

    def __init__(self, *, table: StateTable, living: SnapshotTransformer, cleanup_size: int) -> None:
        self._table = table
        self._living = living
        self._cleanup_size = cleanup_size
        self._walk: Iterator[tuple[HashableKey, object, StoredItems]] = iter(())

    def state_accessed(self) -> None:
        """Visit the next entries; after the last one, start again."""
        step = list(islice(self._walk, self._cleanup_size))
        if not step:
            self._walk = self._table.lazy_entries()
            step = list(islice(self._walk, self._cleanup_size))
        for entry in step:
            clean_entry(self._table, entry, self._living)


def clean_entry(
    table: StateTable, entry: tuple[HashableKey, object, StoredItems], living: SnapshotTransformer
) -> bool:
    """Remove what has expired from an entry, or the whole entry; return whether anything was removed."""
    key, namespace, shown = entry
    if living(shown) is shown:  # the common case: nothing to remove
        return False
    stored = table.get(key, namespace)
    left = None if stored is None else living(stored)
    if left is stored:
        return False
    if left is None:
        table.remove(key, namespace)
    else:
        table.put(key, namespace, left)
    return True


class TtlSerializer:
    """Serializes values with the time of their last access, and migrates values from and to states without it.

    `inner` serializes the value; the timestamp takes eight bytes.

    Answers to Flink's `TtlStateFactory.TtlSerializer` and to the migration when TTL is switched on or off
    (FLINK-32955, FLINK-35780, FLINK-37294). Invariant: a timestamp is invented only where there was none: when TTL is
    switched on, values count as accessed at the migration. With TTL before and after, timestamps stay, whatever the
    durations (S17).
    """

    def __init__(self, inner: TypeSerializer, now_ms: Callable[[], int]) -> None:
        self.schema = ttl_of(inner.schema)
        self._inner = inner
        self._now_ms = now_ms

    def encode(self, value: TtlValue) -> bytes:
        """Raises TypeError if `inner` does not accept the value."""
        return stamped(self._inner.encode(value.value), value.last_access_ms)

    def decode(self, data: bytes) -> TtlValue:
        return TtlValue(self._inner.decode(unstamped(data, self.schema)[0]), last_access_of(data))

    def migrate(self, data: bytes, old: Schema) -> bytes:
        """Keep the old timestamp if there was one, else use the current time."""
        last_access_ms = last_access_of(data) if old.kind == "ttl" else self._now_ms()
        value, schema = unstamped(data, old)
        return stamped(self._inner.migrate(value, schema), last_access_ms)


TtlState = TtlValueState | TtlListState | TtlMapState | TtlReducingState | TtlAggregatingState
CreateState = Callable[[StateDescriptor, TypeSerializer], Any]
"""Creates the inner state of a descriptor, over the table with its name."""


class CreateWithTtl(Protocol):
    """Called by a backend to create a state with a time to live."""

    def __call__(
        self, descriptor: StateDescriptor, *, create_state: CreateState, now_ms: Callable[[], int]
    ) -> TtlState:
        """`create_state` creates the inner state; `now_ms` is the clock."""


def create_state_with_ttl(
    descriptor: StateDescriptor, *, create_state: CreateState, now_ms: Callable[[], int]
) -> TtlState:
    """The state that `descriptor` requests; its `ttl` must be enabled."""
    return TtlStateFactory(create_state=create_state, now_ms=now_ms).create(descriptor)


class TtlStateFactory:
    """Creates the states of one backend; planted defects pass another `decorator`."""

    def __init__(
        self,
        *,
        create_state: CreateState,
        now_ms: Callable[[], int],
        decorator: Callable[[StateTtlConfig, TtlTimeProvider], TtlDecorator] = TtlDecorator,
    ) -> None:
        self._create_state = create_state
        self._now_ms = now_ms
        self._decorator = decorator

    def create(self, descriptor: StateDescriptor) -> TtlState:
        """The state with its clean-up, as the configuration says."""
        config = descriptor.ttl
        if config is None or not config.is_enabled:
            raise ValueError(f"state {descriptor.name!r} has no time to live; create it without this factory")
        time = TtlTimeProvider(self._now_ms)
        ttl = self._decorator(config, time)
        serializer = TtlSerializer(descriptor.serializer, self._now_ms)
        inner = self._create_state(_of_stamped(descriptor, ttl), serializer)
        accessed = _cleaned_up(inner.table, config, time)
        match descriptor:
            case ValueStateDescriptor():
                return TtlValueState(descriptor, inner, ttl, accessed)
            case ListStateDescriptor():
                return TtlListState(descriptor, inner, ttl, accessed)
            case MapStateDescriptor():
                return TtlMapState(descriptor, inner, ttl, accessed)
            case ReducingStateDescriptor():
                return TtlReducingState(descriptor, inner, ttl, accessed)
            case AggregatingStateDescriptor():
                return TtlAggregatingState(descriptor, inner, ttl, accessed)


def _of_stamped(descriptor: StateDescriptor, ttl: TtlDecorator) -> StateDescriptor:
    """The descriptor of the inner state, which holds timestamped values and has neither TTL nor a default (S15)."""
    match descriptor:
        case ValueStateDescriptor():
            return replace(descriptor, default=None, ttl=None)
        case ReducingStateDescriptor():
            return replace(descriptor, reduce=TtlReduceFunction(descriptor.reduce, ttl), ttl=None)
        case AggregatingStateDescriptor():
            return replace(descriptor, aggregate=TtlAggregateFunction(descriptor.aggregate, ttl), ttl=None)
    return replace(descriptor, ttl=None)


def _cleaned_up(table: StateTable, config: StateTtlConfig, time: TtlTimeProvider) -> Callable[[], None]:
    """Set up the clean-up of `table`; return the function that each access must call."""
    strategies = config.cleanup_strategies
    living = TtlStateSnapshotTransformer(config.time_to_live_ms, lambda: time.current_timestamp)
    table.snapshot_transformer = living if strategies.full_snapshot else None
    incremental = strategies.incremental_in_force
    if incremental is None:
        return lambda: None
    cleanup = TtlIncrementalCleanup(table=table, living=living, cleanup_size=incremental.cleanup_size)
    if incremental.run_cleanup_for_every_record:
        table.context.on_key_selected.append(cleanup.state_accessed)
    return cleanup.state_accessed
