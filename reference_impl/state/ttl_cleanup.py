"""Removes expired values that are never read: from snapshots, or at each access.

Answers to Flink's `TtlStateSnapshotTransformer` and `TtlIncrementalCleanup`.
Invariant: each decides on the value that is stored at that moment, and removes nothing that has not expired (S16).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from reference_impl.state.state_table import StateTable
from reference_impl.state.ttl_config import expires_at
from reference_impl.state.ttl_value import last_access_of


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


def clean_entry(table: StateTable, entry: tuple[object, object, object], living: Living) -> bool:
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
