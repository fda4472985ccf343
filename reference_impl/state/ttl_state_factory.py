"""Creates a state whose values expire: an inner state of timestamped values, and the wrapper that users see.

Answers to Flink's `TtlStateFactory` and its `TtlSerializer`. Invariant: clean-up is set up at each start from the
current configuration, also for restored state; no checkpoint contains it (S17, FLINK-40354).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from reference_impl.state.schema import Schema, ttl_of
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
from reference_impl.state.ttl_cleanup import (
    TtlIncrementalCleanup,
    TtlStateSnapshotTransformer,
)
from reference_impl.state.ttl_config import StateTtlConfig, TtlTimeProvider
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
from reference_impl.state.ttl_value import TtlValue, last_access_of, stamped, unstamped


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
                return TtlMapState(descriptor, inner, ttl, accessed, serializer=serializer)
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
