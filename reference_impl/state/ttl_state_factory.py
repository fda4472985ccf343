"""Makes a state whose values have a life: one of values with stamps, their serializer, and around it what a user sees.

Answers to Flink's `TtlStateFactory` and its `TtlSerializer`. Invariant: what cleans up is set up anew with each run,
from the configuration that counts now, also for what was restored: nothing of it is in a checkpoint (S17, FLINK-40354).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from reference_impl.state.schema import Compatibility, Schema, compatibility, ttl_of
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
    TtlCompactionFilter,
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

__all__ = [
    "CreateState",
    "CreateWithTtl",
    "TtlSerializer",
    "TtlState",
    "TtlStateFactory",
    "create_state_with_ttl",
]


class TtlSerializer:
    """Stores values with the instant of their last access, and migrates to and from those without.

    `inner` for the value, eight bytes for the stamp.

    Answers to Flink's `TtlStateFactory.TtlSerializer` and to what migrates state when TTL is switched on or off
    (FLINK-32955, FLINK-35780, FLINK-37294). Invariant: a stamp is made up only where there was none: switched on, all
    is as if accessed at the migration; with TTL before and after, the stamps stay, whatever the durations (S17).
    """

    def __init__(self, inner: TypeSerializer, now_ms: Callable[[], int]) -> None:
        self.schema = ttl_of(inner.schema)
        self._inner = inner
        self._now_ms = now_ms

    def encode(self, value: TtlValue) -> bytes:
        """TypeError if the value itself is of another type than `inner` takes."""
        return stamped(self._inner.encode(value.value), value.last_access_ms)

    def decode(self, data: bytes) -> TtlValue:
        """A new value, equal to the one encoded."""
        return TtlValue(self._inner.decode(unstamped(data, self.schema)[0]), last_access_of(data))

    def compatibility_with(self, old: Schema) -> Compatibility:
        """As that of the values; without stamps before, after migration at best."""
        return compatibility(new=self.schema, old=old)

    def migrate(self, data: bytes, old: Schema) -> bytes:
        """The old stamp if there was one, else the present instant."""
        last_access_ms = last_access_of(data) if old.kind == "ttl" else self._now_ms()
        value, schema = unstamped(data, old)
        return stamped(self._inner.migrate(value, schema), last_access_ms)


TtlState = TtlValueState | TtlListState | TtlMapState | TtlReducingState | TtlAggregatingState
CreateState = Callable[[StateDescriptor, TypeSerializer], Any]
"""Makes the inner state that a descriptor asks for, over the table of that name."""


class CreateWithTtl(Protocol):
    """What a backend calls for a state whose values have a life."""

    def __call__(
        self, descriptor: StateDescriptor, *, create_state: CreateState, now_ms: Callable[[], int]
    ) -> TtlState:
        """The state that it asks for; `create_state` makes what lies beneath, at the time that `now_ms` says."""


def create_state_with_ttl(
    descriptor: StateDescriptor, *, create_state: CreateState, now_ms: Callable[[], int]
) -> TtlState:
    """The state that `descriptor` asks for, whose `ttl` says that its values have a life."""
    return TtlStateFactory(create_state=create_state, now_ms=now_ms).create(descriptor)


class TtlStateFactory:
    """For the states of one backend; another `decorator` makes other rules."""

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
        """The state that it asks for, cleaned up as its configuration says."""
        config = descriptor.ttl
        if config is None or not config.is_enabled:
            raise ValueError(f"state {descriptor.name!r} has no time to live; create it as it is")
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
    """What the inner state is to be: of values with stamps, and without a life or a default (S15)."""
    match descriptor:
        case ValueStateDescriptor():
            return replace(descriptor, default=None, ttl=None)
        case ReducingStateDescriptor():
            return replace(descriptor, reduce=TtlReduceFunction(descriptor.reduce, ttl), ttl=None)
        case AggregatingStateDescriptor():
            return replace(descriptor, aggregate=TtlAggregateFunction(descriptor.aggregate, ttl), ttl=None)
    return replace(descriptor, ttl=None)


def _cleaned_up(table: StateTable, config: StateTtlConfig, time: TtlTimeProvider) -> Callable[[], None]:
    """Set up who cleans the table up, and give back what each access is to call."""
    strategies = config.cleanup_strategies
    living = TtlStateSnapshotTransformer(config.time_to_live_ms, lambda: time.current_timestamp)
    table.snapshot_transformer = living if strategies.full_snapshot else None
    if strategies.compaction_filter is not None:
        table.compaction = TtlCompactionFilter(
            table=table,
            strategy=strategies.compaction_filter,
            time_to_live_ms=config.time_to_live_ms,
            time=time,
        )
    incremental = strategies.incremental_in_force
    if incremental is None:
        return _nothing
    cleanup = TtlIncrementalCleanup(table=table, living=living, cleanup_size=incremental.cleanup_size)
    if incremental.run_cleanup_for_every_record:
        table.context.on_key_selected.append(cleanup.state_accessed)
    return cleanup.state_accessed


def _nothing() -> None:
    """Nobody cleans up at an access."""
