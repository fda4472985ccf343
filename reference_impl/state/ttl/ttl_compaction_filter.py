"""Cleans up in the background: a pass over all entries, in slices between which others may run.

Answers to the compaction filter that Flink gives RocksDB (`RocksDbTtlCompactFiltersManager`). Invariant: it takes away
nothing that lives. It looks at the clock once for so many entries; an instant that has aged a little finds less to be
expired, and never more (S16).

Deviation: there are no files that are merged some time or other, so a pass is started: by whoever owns the state's
task, where `is_due` says that the period is over, or by hand.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from reference_impl.state.state_table import StateTable
from reference_impl.state.ttl.state_ttl_config import CompactionFilterCleanup
from reference_impl.state.ttl.ttl_incremental_cleanup import clean_entry
from reference_impl.state.ttl.ttl_state_snapshot_transformer import TtlStateSnapshotTransformer
from reference_impl.state.ttl.ttl_time_provider import TtlTimeProvider

__all__ = ["TtlCompactionFilter"]


class TtlCompactionFilter:
    """Of one state. Mutable: it knows when its last pass began."""

    def __init__(
        self,
        *,
        table: StateTable,
        strategy: CompactionFilterCleanup,
        time_to_live_ms: int,
        time: TtlTimeProvider,
    ) -> None:
        self._table = table
        self._strategy = strategy
        self._time_to_live_ms = time_to_live_ms
        self._time = time
        self._began_ms = time.current_timestamp

    @property
    def is_due(self) -> bool:
        """Whether the last pass began a whole period ago."""
        return self._time.current_timestamp - self._began_ms >= self._strategy.periodic_compaction_ms

    def compact(self) -> Generator[None, None, int]:
        """Look at every entry, a slice a step; gives back how many of them it cleaned."""
        self._began_ms = now_ms = self._time.current_timestamp
        cleaned = 0

        def looked_up() -> int:
            return now_ms

        living: Any = TtlStateSnapshotTransformer(self._time_to_live_ms, looked_up)
        for number, entry in enumerate(self._table.lazy_entries(), start=1):
            cleaned += clean_entry(self._table, entry, living)
            if number % self._strategy.query_time_after_num_entries == 0:
                yield
                now_ms = self._time.current_timestamp
        return cleaned
