"""Removes expired values that are never read: from snapshots, at each access, or in the background.

Answers to Flink's `TtlStateSnapshotTransformer`, `TtlIncrementalCleanup` and `RocksDbTtlCompactFiltersManager`.
Invariant: each decides on the value that is stored at that moment, and removes nothing that has not expired (S16).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

from reference_impl.errors import MailboxClosed
from reference_impl.mailbox.mailbox import MailboxExecutor
from reference_impl.mailbox.timers import Timers
from reference_impl.state.state_table import Compaction, StateTable
from reference_impl.state.ttl_config import CompactionFilterCleanup, TtlTimeProvider, expires_at
from reference_impl.state.ttl_value import last_access_of

__all__ = [
    "TtlBackgroundCompaction",
    "TtlCompactionFilter",
    "TtlIncrementalCleanup",
    "TtlStateSnapshotTransformer",
]


class TtlStateSnapshotTransformer:
    """Returns the unexpired part of a stored value, of any kind of state; None if all has expired (S16).

    A stored value is bytes, a list of bytes or a dict of bytes, each with its timestamp in front.

    Answers to Flink's `TtlStateSnapshotTransformer` and to `getUnexpiredOrNull`. Invariant: it looks only at
    timestamps and changes nothing. If nothing has expired, it returns its argument itself.
    """

    def __init__(self, time_to_live_ms: int, now_ms: Callable[[], int]) -> None:
        self._time_to_live_ms = time_to_live_ms
        self._now_ms = now_ms

    def __call__(self, stored: Any) -> Any:
        now_ms = self._now_ms()
        match stored:
            case bytes():
                return stored if self._lives(stored, now_ms) else None
            case list():
                living: Any = [element for element in stored if self._lives(element, now_ms)]
            case dict():
                living = {key: value for key, value in stored.items() if self._lives(value, now_ms)}
            case _:
                raise TypeError(
                    f"a state stores a {type(stored).__name__}; this filter knows bytes, lists and dicts"
                )
        return stored if len(living) == len(stored) else living or None

    def _lives(self, data: bytes, now_ms: int) -> bool:
        return expires_at(last_access_of(data), self._time_to_live_ms) > now_ms


Living = Callable[[Any], Any]
"""Returns the unexpired part of a stored value: None if all has expired, the same object if nothing has."""


class TtlIncrementalCleanup:
    """Visits some entries at each access to a state and removes what has expired. Mutable: its position in the walk.

    Answers to Flink's `TtlIncrementalCleanup`. Invariant: it decides on what is stored at that moment, since the walk
    may show an older value, and an update in between must not be lost. Without accesses nothing is cleaned (S16).
    """

    def __init__(self, *, table: StateTable, living: Living, cleanup_size: int) -> None:
        self._table = table
        self._living = living
        self._cleanup_size = cleanup_size
        self._walk: Iterator[tuple[Any, Any, Any]] = iter(())

    def state_accessed(self) -> None:
        """Visit the next entries; after the last one, start again."""
        step = list(islice(self._walk, self._cleanup_size))
        if not step:
            self._walk = self._table.lazy_entries()
            step = list(islice(self._walk, self._cleanup_size))
        for entry in step:
            clean_entry(self._table, entry, self._living)


def clean_entry(table: StateTable, entry: tuple[Any, Any, Any], living: Living) -> bool:
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


class TtlCompactionFilter:
    """Removes expired values in the background: a pass over all entries, in slices.

    Mutable: the start of the last pass.

    Answers to the compaction filter that Flink gives RocksDB (`RocksDbTtlCompactFiltersManager`). Invariant: it
    removes nothing that has not expired. It reads the clock once for many entries; a slightly old time finds fewer
    expired values, never more (S16).

    Difference from Flink: there are no files to be merged, so the task starts a pass when `is_due`, or a caller does.
    """

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
        """Whether a full period has passed since the last pass began."""
        return self._time.current_timestamp - self._began_ms >= self._strategy.periodic_compaction_ms

    def compact(self) -> Generator[None, None, int]:
        """Visit all entries, one slice for each step; returns how many were cleaned."""
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


_LOOK_EVERY_MS = 60_000


class TtlBackgroundCompaction:
    """Runs the compactions of a task's states when they are due, between other mail. Mutable: a timer, until `close`.

    Answers to the threads in which RocksDB compacts for Flink; here it is the task's thread. Invariant: each slice is
    one mail, and the next is enqueued after the mail that is waiting then, so a long pass delays nothing (M13).
    """

    def __init__(
        self,
        *,
        compactions: Callable[[], Iterable[Compaction]],
        timers: Timers,
        executor: MailboxExecutor,
        look_every_ms: int = _LOOK_EVERY_MS,
    ) -> None:
        self._compactions = compactions
        self._executor = executor
        self._timer = timers.register_fixed_delay(self._look, delay_ms=look_every_ms, period_ms=look_every_ms)

    def close(self) -> None:
        """Begin no further pass; a running one goes on while its mail can run."""
        self._timer.cancel()

    def _look(self, _: int) -> None:
        for compaction in self._compactions():
            if compaction.is_due:
                self._go_on(compaction.compact())

    def _go_on(self, slices: Iterator[None]) -> None:
        with suppress(StopIteration, MailboxClosed):  # the pass has ended, or the task is ending
            next(slices)
            self._executor.execute(partial(self._go_on, slices), "compaction of expired state")
