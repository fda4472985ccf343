"""Planted defect: what is copied on write is the entry, and not the list or the map in it.

Answers to a copy on write that stops at the first level (C7, S9): values are isolated, but a list or a map that grows
while a snapshot is written grows in the snapshot too.
"""

from __future__ import annotations

from typing import Any

from reference_impl.state.copy_on_write_state_map import Cell, CopyOnWriteStateMap, EntryKey

__all__ = ["ShallowStateMap"]


class ShallowStateMap(CopyOnWriteStateMap):
    """Shares its lists and maps with its snapshots. Mutable."""

    def cell_to_write(self, position: int, key: EntryKey) -> Cell[Any] | None:
        cell: Cell[Any] | None = self.get(position, key)
        return cell
