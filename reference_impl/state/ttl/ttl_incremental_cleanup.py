"""Cleans up a little at each access: a walk over all entries that each access takes some steps of.

Answers to Flink's `TtlIncrementalCleanup`. Invariant: it decides on what is stored at that moment. What the walk shows
may be old by then, and an update in between must not be lost; and without accesses there is no clean-up (S16).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from reference_impl.state.state_table import StateTable

__all__ = ["TtlIncrementalCleanup", "clean_entry"]

Living = Callable[[Any], Any]
"""What lives of a stored value: None for nothing, the same object for all of it."""


class TtlIncrementalCleanup:
    """Of one state. Mutable: it knows how far it has come, and begins anew at the end."""

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
