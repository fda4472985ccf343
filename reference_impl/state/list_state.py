"""Elements of the current key, in the order in which they were added.

Answers to Flink's `ListState` and `HeapListState`. Invariant: there is an entry if and only if there is an element; a
refused element or list changes nothing (S4).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reference_impl.state.copy_on_write_state_map import Cell
from reference_impl.state.serializer import UNENCODABLE, TypeSerializer
from reference_impl.state.state_descriptor import ListStateDescriptor
from reference_impl.state.state_table import KeyedEntry, StateTable

__all__ = ["ListState"]


class ListState:
    """The state that a `ListStateDescriptor` asks for. Mutable."""

    def __init__(
        self, descriptor: ListStateDescriptor, serializer: TypeSerializer, table: StateTable
    ) -> None:
        self.descriptor = descriptor
        self.table = table
        self._entry = KeyedEntry(table)
        self._serializer = serializer

    @property
    def current_namespace(self) -> Any:
        """The namespace that the next access is about."""
        return self._entry.namespace

    def set_current_namespace(self, namespace: Any) -> None:
        """Let accesses be about `namespace` from now on."""
        self._entry.namespace = namespace

    def get(self) -> list[Any]:
        """Copies of the elements; an empty list if there are none, never None."""
        cell: Cell[list[bytes]] | None = self._entry.get()
        return [] if cell is None else list(map(self._serializer.decode, cell.items))

    def add(self, element: Any) -> None:
        """Append an element, which cannot be None."""
        self._append([self._encoded(element)])

    def add_all(self, elements: Iterable[Any]) -> None:
        """Append elements, all or none; without any, nothing changes."""
        self._append(self._all_encoded(elements))

    def update(self, elements: Iterable[Any]) -> None:
        """Replace the elements; without any, there are none."""
        self._entry.put_items(self._all_encoded(elements))

    def clear(self) -> None:
        """Let there be no elements."""
        self._entry.remove()

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Append the elements of the sources to those of the target; the sources are empty afterwards (S7)."""
        self._entry.merge(target, sources, self._merged)

    def _merged(self, cells: list[Cell[list[bytes]]]) -> Cell[list[bytes]]:
        return Cell(self.table.map.version, [data for cell in cells for data in cell.items])

    def _append(self, data: list[bytes]) -> None:
        cell = self._entry.cell_to_write()
        if cell is None:
            self._entry.put_items(data)
        else:
            cell.items += data

    def _all_encoded(self, elements: Iterable[Any]) -> list[bytes]:
        if elements is None:
            raise self._entry.refusal("None is no list of elements; give an empty one, or clear()")
        return list(map(self._encoded, elements))

    def _encoded(self, element: Any) -> bytes:
        if element is None:
            raise self._entry.refusal("None cannot be an element of a list")
        try:
            return self._serializer.encode(element)
        except UNENCODABLE as error:
            raise self._entry.refusal(error) from None
