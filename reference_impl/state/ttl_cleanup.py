"""What takes expired values out of a state that nobody reads: in snapshots, at each access, or in the background.

Answers to Flink's `TtlStateSnapshotTransformer`, `TtlIncrementalCleanup` and `RocksDbTtlCompactFiltersManager`.
Invariant: each decides on what is stored at that moment, and takes away nothing that lives (S16).
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
    "clean_entry",
]


class TtlStateSnapshotTransformer:
    """Takes what has expired out of a stored value, whatever the kind of state.

    A filter of stored values; called with one, it gives what lives of it, None for nothing (S16).

    Stored is one value, a list of values or a dict of them, each in bytes with its stamp in front.

    Answers to Flink's `TtlStateSnapshotTransformer` and to `getUnexpiredOrNull`. Invariant: it looks at the stamps
    alone and changes nothing: what it gives back is new where something had to go, and the very same object where
    nothing had.
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
"""What lives of a stored value: None for nothing, the same object for all of it."""


class TtlIncrementalCleanup:
    """Cleans up a little at each access: a walk over all entries that each access takes some steps of.

    Of one state. Mutable: it knows how far it has come, and begins anew at the end.

    Answers to Flink's `TtlIncrementalCleanup`. Invariant: it decides on what is stored at that moment. What the walk
    shows may be old by then, and an update in between must not be lost; and without accesses there is no clean-up
    (S16).
    """

    def __init__(self, *, table: StateTable, living: Living, cleanup_size: int) -> None:
        self._table = table
        self._living = living
        self._cleanup_size = cleanup_size
        self._walk: Iterator[tuple[Any, Any, Any]] = iter(())

    def state_accessed(self) -> None:
        """Look at the next entries."""
        step = list(islice(self._walk, self._cleanup_size))
        if not step:
            self._walk = self._table.lazy_entries()
            step = list(islice(self._walk, self._cleanup_size))
        for entry in step:
            clean_entry(self._table, entry, self._living)


def clean_entry(table: StateTable, entry: tuple[Any, Any, Any], living: Living) -> bool:
    """Take out of an entry what has expired, the entry itself if that is all, and say whether there was something."""
    key, namespace, shown = entry
    if living(shown) is shown:  # the rule; what came meanwhile is younger, so there is nothing to look up
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
    """Cleans up in the background: a pass over all entries, in slices between which others may run.

    Of one state. Mutable: it knows when its last pass began.

    Answers to the compaction filter that Flink gives RocksDB (`RocksDbTtlCompactFiltersManager`). Invariant: it takes
    away nothing that lives. It looks at the clock once for so many entries; an instant that has aged a little finds
    less to be expired, and never more (S16).

    Deviation: there are no files that are merged some time or other, so a pass is started: by whoever owns the state's
    task, where `is_due` says that the period is over, or by hand.
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


_LOOK_EVERY_MS = 60_000


class TtlBackgroundCompaction:
    """Runs the compactions of a task's states when they are due, between other mail.

    Of one task, whose `compactions` are asked for at each look. Mutable: a timer, until `close`.

    Answers to the threads in which RocksDB compacts for Flink; here it is the task's own. Invariant: a slice is one
    mail, and the next one is put behind what waits by then, so a pass over however many entries holds nothing up (M13).
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
        """Begin no other pass; the mail of one that has begun still runs."""
        self._timer.cancel()

    def _look(self, _: int) -> None:
        for compaction in self._compactions():
            if compaction.is_due:
                self._go_on(compaction.compact())

    def _go_on(self, slices: Iterator[None]) -> None:
        with suppress(StopIteration, MailboxClosed):  # it is through, or the task is going down
            next(slices)
            self._executor.execute(partial(self._go_on, slices), "compaction of expired state")
