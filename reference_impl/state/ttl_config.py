"""How long a state's values live, by which clock, what renews them, who sees the expired, and who cleans them up.

Answers to Flink's `StateTtlConfig` with its enums, and to `TtlTimeProvider`. Invariant: it is configuration and no
state, so it is in no checkpoint: what is configured now counts for stamps of old (S17).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

__all__ = [
    "TIME_MAX_MS",
    "CleanupStrategies",
    "CompactionFilterCleanup",
    "IncrementalCleanup",
    "StateTtlConfig",
    "StateVisibility",
    "TtlTimeCharacteristic",
    "TtlTimeProvider",
    "UpdateType",
    "expires_at",
]

_DAY_MS = 24 * 60 * 60 * 1000


class UpdateType(Enum):
    """What stamps a value anew (S12)."""

    DISABLED = "never expires"
    """No stamps at all: the state is as it would be without a configuration."""
    ON_CREATE_AND_WRITE = "writes"
    ON_READ_AND_WRITE = "writes, and reads of what has not expired"


class StateVisibility(Enum):
    """What a reader gets of the expired (S13)."""

    NEVER_RETURN_EXPIRED = "never"
    RETURN_EXPIRED_IF_NOT_CLEANED_UP = "as long as nobody has cleaned it up"
    """Reading is cleaning up, so it is got once; of a list as long as others in it live (S14)."""


class TtlTimeCharacteristic(Enum):
    """Which time counts; there is one (S11)."""

    PROCESSING_TIME = "processing time"


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalCleanup:
    """Each access to the state looks at some more of its entries."""

    cleanup_size: int = 5
    """So many."""
    run_cleanup_for_every_record: bool = False
    """And each change of the current key does too, whether or not the state is then accessed."""

    def __post_init__(self) -> None:
        if self.cleanup_size < 1:
            raise ValueError(
                f"cleanup_size is {self.cleanup_size}; give 1 or more entries, or no IncrementalCleanup"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionFilterCleanup:
    """A pass over all entries in the background."""

    query_time_after_num_entries: int = 1000
    """For so many entries one look at the clock has to do."""
    periodic_compaction_ms: int = 30 * _DAY_MS
    """After which a pass is due."""

    def __post_init__(self) -> None:
        if self.query_time_after_num_entries < 1 or self.periodic_compaction_ms < 1:
            raise ValueError(
                f"query_time_after_num_entries is {self.query_time_after_num_entries} and periodic_compaction_ms "
                f"{self.periodic_compaction_ms}; give 1 or more each"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupStrategies:
    """Who cleans up besides the reader that finds something expired, which always does (S16)."""

    full_snapshot: bool = False
    """Leave the expired out of a snapshot; the state itself keeps it."""
    incremental: IncrementalCleanup | None = None
    compaction_filter: CompactionFilterCleanup | None = None
    in_background: bool = True
    """With neither of these two: whether there is an incremental one all the same."""

    @property
    def incremental_in_force(self) -> IncrementalCleanup | None:
        """As configured, or else as in the background."""
        if self.incremental is not None:
            return self.incremental
        return IncrementalCleanup() if self.in_background and self.compaction_filter is None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTtlConfig:
    """How long a state's values live, what renews them, who sees the expired, and who cleans them up.

    Of one state; its descriptor has it as `ttl`.

    Answers to Flink's `StateTtlConfig` and its enums. Invariant: it is configuration and no state, so it is in no
    checkpoint: what is configured now counts for stamps of old (S17).

    Deviation: keyword arguments instead of a builder. RocksDB's compaction filter is here a pass over the state in
    memory, which whoever owns the task starts (`ttl_cleanup.py`).
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
        """Whether values are stamped."""
        return self.update_type is not UpdateType.DISABLED


TIME_MAX_MS = 2**63 - 1
"""A value that would live beyond it lives until then (S11)."""


class TtlTimeProvider:
    """Which instant it is for those who ask whether a value has expired.

    Time for one state. Mutable: it remembers the last instant at which something of it had expired.

    Answers to Flink's `TtlTimeProvider`. Invariant: what has once been found expired stays so, while this runs: from
    then on the time is never earlier than the instant at which it was found.

    Flink takes the system's clock as it is. When that is set back, an element that a reader was already refused comes
    back, if nothing has cleaned it up in between: of a list nothing does (S14). Here it does not. A clock that goes
    back makes what is alive live longer and never shorter, and nothing is resurrected before it was found dead. The
    memory is that of one run: after a restore the clock of the new one counts, against the old stamps (S17).
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._not_before_ms = -TIME_MAX_MS

    @property
    def current_timestamp(self) -> int:
        """The present instant (ms)."""
        return max(self._now_ms(), self._not_before_ms)

    def has_passed(self, last_access_ms: int, time_to_live_ms: int) -> bool:
        """Whether a value of that stamp has expired, said to somebody who will count on it."""
        now_ms = self.current_timestamp
        has_expired = expires_at(last_access_ms, time_to_live_ms) <= now_ms
        if has_expired:
            self._not_before_ms = now_ms
        return has_expired


def expires_at(last_access_ms: int, time_to_live_ms: int) -> int:
    """The first instant at which it is expired (S11)."""
    return min(last_access_ms + time_to_live_ms, TIME_MAX_MS)
