"""Describes a state that an operator requests: its kind, name, types and time to live.

Answers to Flink's `StateTtlConfig` with its enums, and to `TtlTimeProvider`. Invariant: the configuration is not part
of a checkpoint; the current one applies to restored timestamps (S17).

Answers to Flink's `StateDescriptor` family. Invariant: a state is identified by its name alone; a later descriptor
with that name must have the same kind, and types that can read the old values (S2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Protocol, TypeVar

from reference_impl.state.serializer import TypeSerializer, serializer_for

_DAY_MS = 24 * 60 * 60 * 1000


class UpdateType(Enum):
    """What refreshes the timestamp of a value (S12)."""

    DISABLED = "never expires"
    """Values have no timestamps, as in a state without TTL."""
    ON_CREATE_AND_WRITE = "writes"
    ON_READ_AND_WRITE = "writes, and reads of what has not expired"


class StateVisibility(Enum):
    """Whether a reader may see an expired value (S13)."""

    NEVER_RETURN_EXPIRED = "never"
    RETURN_EXPIRED_IF_NOT_CLEANED_UP = "as long as nobody has cleaned it up"
    """Reading cleans up, so an expired value is seen once; in a list, as long as other elements live (S14)."""


class TtlTimeCharacteristic(Enum):
    """The clock; there is only one (S11)."""

    PROCESSING_TIME = "processing time"


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalCleanup:
    """Each access to the state visits some further entries."""

    cleanup_size: int = 5
    """The number of entries per visit."""
    run_cleanup_for_every_record: bool = False
    """Whether selecting a key also visits entries, even if the state is not accessed."""

    def __post_init__(self) -> None:
        if self.cleanup_size < 1:
            raise ValueError(
                f"cleanup_size is {self.cleanup_size}; give 1 or more entries, or no IncrementalCleanup"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupStrategies:
    """What cleans up besides a read that finds an expired value, which always does (S16)."""

    full_snapshot: bool = False
    """Leave expired values out of snapshots; the state keeps them."""
    incremental: IncrementalCleanup | None = None
    in_background: bool = True
    """If `incremental` is not set: whether to clean up incrementally anyway."""

    @property
    def incremental_in_force(self) -> IncrementalCleanup | None:
        """The configured strategy, or the default one in the background."""
        if self.incremental is not None:
            return self.incremental
        return IncrementalCleanup() if self.in_background else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTtlConfig:
    """How long the values of one state live, what refreshes them, who sees expired ones, and what cleans up.

    A descriptor holds it as `ttl`.

    Answers to Flink's `StateTtlConfig` and its enums. Invariant: the configuration is not part of a checkpoint; the
    current one applies to restored timestamps (S17).

    Differences from Flink: keyword arguments instead of a builder; no compaction filter, for there are no files.
    """

    time_to_live_ms: int
    update_type: UpdateType = UpdateType.ON_CREATE_AND_WRITE
    state_visibility: StateVisibility = StateVisibility.NEVER_RETURN_EXPIRED
    ttl_time_characteristic: TtlTimeCharacteristic = TtlTimeCharacteristic.PROCESSING_TIME
    cleanup_strategies: CleanupStrategies = field(default_factory=CleanupStrategies)

    def __post_init__(self) -> None:
        if self.time_to_live_ms < 1:
            raise ValueError(
                f"time_to_live_ms is {self.time_to_live_ms}; give 1 or more, or no StateTtlConfig (S11)"
            )

    @property
    def is_enabled(self) -> bool:
        """Whether values have timestamps."""
        return self.update_type is not UpdateType.DISABLED


TIME_MAX_MS = 2**63 - 1
"""The expiry time of values that would live longer than it (S11)."""


class TtlTimeProvider:
    """The clock by which the values of one state expire. Mutable: the last time at which it found one expired.

    Answers to Flink's `TtlTimeProvider`. Invariant: a value that was found expired stays expired while the process
    runs: the time never goes back behind the moment of that finding.

    Flink uses the system clock as it is. When that is set back, a list element that a reader no longer saw comes back
    unless it was cleaned up (S14). Here it does not. A clock that is set back only lets values live longer. After a
    restore, the new process starts from its own clock and the old timestamps (S17).
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._not_before_ms = -TIME_MAX_MS

    @property
    def current_timestamp(self) -> int:
        """The current time (ms)."""
        return max(self._now_ms(), self._not_before_ms)

    def has_passed(self, last_access_ms: int, time_to_live_ms: int) -> bool:
        """Whether a value with that timestamp has expired; if so, remember the time."""
        now_ms = self.current_timestamp
        has_expired = expires_at(last_access_ms, time_to_live_ms) <= now_ms
        if has_expired:
            self._not_before_ms = now_ms
        return has_expired


def expires_at(last_access_ms: int, time_to_live_ms: int) -> int:
    """The first moment at which the value has expired (S11)."""
    return min(last_access_ms + time_to_live_ms, TIME_MAX_MS)


ReduceFunction = Callable[[Any, Any], Any]
"""Combines the old value and an added one, without changing either."""


V_contra = TypeVar("V_contra", contravariant=True)
A = TypeVar("A")
R_co = TypeVar("R_co", covariant=True)


class AggregateFunction(Protocol[V_contra, A, R_co]):
    """Collects values in an accumulator of another type."""

    def create_accumulator(self) -> A:
        """An empty accumulator."""

    def add(self, value: V_contra, accumulator: A) -> A:
        """The accumulator with `value` added; may change and return its argument."""

    def get_result(self, accumulator: A) -> R_co: ...

    def merge(self, a: A, b: A) -> A:
        """One accumulator from two; may change either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueStateDescriptor:
    """One value per key; reads without a value return a copy of `default` (S3)."""

    kind: ClassVar[str] = "value"
    name: str
    value_type: Any = Any
    default: Any = None
    ttl: StateTtlConfig | None = None

    @property
    def serializer(self) -> TypeSerializer:
        return serializer_for(self.value_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListStateDescriptor:
    """Elements in the order in which they were added."""

    kind: ClassVar[str] = "list"
    name: str
    element_type: Any = Any
    ttl: StateTtlConfig | None = None

    @property
    def serializer(self) -> TypeSerializer:
        return serializer_for(self.element_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReducingStateDescriptor:
    """One value per key, combined with each value that is added."""

    kind: ClassVar[str] = "reducing"
    name: str
    reduce: ReduceFunction
    value_type: Any = Any
    ttl: StateTtlConfig | None = None

    @property
    def serializer(self) -> TypeSerializer:
        return serializer_for(self.value_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregatingStateDescriptor:
    """One accumulator per key, to which values are added."""

    kind: ClassVar[str] = "aggregating"
    name: str
    aggregate: AggregateFunction[Any, Any, object]
    accumulator_type: Any = Any
    ttl: StateTtlConfig | None = None

    @property
    def serializer(self) -> TypeSerializer:
        return serializer_for(self.accumulator_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class MapStateDescriptor:
    """A map per key."""

    kind: ClassVar[str] = "map"
    name: str
    key_type: Any = Any
    value_type: Any = Any
    ttl: StateTtlConfig | None = None

    @property
    def key_serializer(self) -> TypeSerializer:
        return serializer_for(self.key_type)

    @property
    def serializer(self) -> TypeSerializer:
        return serializer_for(self.value_type)


StateDescriptor = (
    ValueStateDescriptor
    | ListStateDescriptor
    | ReducingStateDescriptor
    | AggregatingStateDescriptor
    | MapStateDescriptor
)
"""Any descriptor."""
