"""A keyed backend in a time of the test's own, for states that live for 100 ms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reference_impl.state.keyed_state_backend import KeyedStateBackend
from reference_impl.state.snapshots import KeyedStateHandle
from reference_impl.state.state_descriptor import (
    AggregatingStateDescriptor,
    CleanupStrategies,
    IncrementalCleanup,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    StateVisibility,
    UpdateType,
    ValueStateDescriptor,
)

TTL_MS = 100
ON_READ, ON_WRITE = UpdateType.ON_READ_AND_WRITE, UpdateType.ON_CREATE_AND_WRITE
NEVER, RETURN = StateVisibility.NEVER_RETURN_EXPIRED, StateVisibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP
BY_HAND = CleanupStrategies(in_background=False)
"""Nobody cleans up but who reads."""
STRATEGIES = {
    "by hand": BY_HAND,
    "full snapshot": CleanupStrategies(full_snapshot=True, in_background=False),
    "incremental": CleanupStrategies(incremental=IncrementalCleanup(cleanup_size=1)),
    "every record": CleanupStrategies(
        incremental=IncrementalCleanup(cleanup_size=3, run_cleanup_for_every_record=True)
    ),
}


class Collecting:
    """An aggregate function whose accumulator is a list of what was added, and whose result is a tuple of it."""

    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        return [*accumulator, value]

    def get_result(self, accumulator: list[int]) -> tuple[int, ...]:
        return tuple(accumulator)

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        return a + b


DESCRIPTORS: dict[str, StateDescriptor] = {
    "value": ValueStateDescriptor(name="state", value_type=int),
    "list": ListStateDescriptor(name="state", element_type=int),
    "map": MapStateDescriptor(name="state", key_type=int, value_type=int),
    "reducing": ReducingStateDescriptor(name="state", reduce=int.__add__, value_type=int),
    "aggregating": AggregatingStateDescriptor(
        name="state", aggregate=Collecting(), accumulator_type=list[int]
    ),
}


def ttl(
    time_to_live_ms: int = TTL_MS,
    *,
    update: UpdateType = ON_WRITE,
    visibility: StateVisibility = NEVER,
    cleanup: CleanupStrategies = BY_HAND,
) -> StateTtlConfig:
    """A configuration, by default one without any clean-up but by reads."""
    return StateTtlConfig(
        time_to_live_ms=time_to_live_ms,
        update_type=update,
        state_visibility=visibility,
        cleanup_strategies=cleanup,
    )


class Subtask:
    """A backend with one state, at a time that the test sets. Mutable."""

    backend_class = KeyedStateBackend

    def __init__(self, descriptor: StateDescriptor, config: StateTtlConfig | None) -> None:
        self.now_ms = 0
        self.descriptor = descriptor
        self.begin(config, None)

    def begin(self, config: StateTtlConfig | None, handle: KeyedStateHandle | None) -> None:
        """A new run with what `handle` holds, configured anew."""
        self.backend = self.backend_class(operator="op", max_parallelism=4, now_ms=lambda: self.now_ms)
        self.backend.restore([handle])
        self.state: Any = self.backend.get_partitioned_state(None, replace(self.descriptor, ttl=config))
        self.select("k")

    def select(self, key: Any) -> None:
        """Let `key` be the current one."""
        self.backend.set_current_key(key)

    def written(self) -> KeyedStateHandle | None:
        """A snapshot of it."""
        future = self.backend.snapshot(1)
        future.run()
        return future.result()

    def restart(self, config: StateTtlConfig | None) -> None:
        """Go on from a snapshot of it, in a new run with that configuration."""
        self.begin(config, self.written())

    @property
    def stored(self) -> int:
        """How many keys have something stored, expired or not."""
        return self.backend.num_keyed_state_entries
