"""One accumulator of the current key, into which whatever is added goes: what reducing and aggregating state share.

Answers to Flink's `AbstractHeapMergingState`. Invariant: what is stored is replaced whole or not at all; if a function
of the user raises, it is what it was (S5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

from reference_impl.state.serializer import UNENCODABLE, TypeSerializer
from reference_impl.state.state_table import KeyedEntry, StateTable

__all__ = ["MergingState"]


class MergingState:
    """An entry that `merge` makes one of two. Mutable."""

    def __init__(
        self, serializer: TypeSerializer, table: StateTable, *, merge: Callable[[Any, Any], Any]
    ) -> None:
        self.table = table
        self._entry = KeyedEntry(table)
        self._serializer = serializer
        self._merge = merge

    @property
    def current_namespace(self) -> Any:
        """The namespace that the next access is about."""
        return self._entry.namespace

    def set_current_namespace(self, namespace: Any) -> None:
        """Let accesses be about `namespace` from now on."""
        self._entry.namespace = namespace

    def clear(self) -> None:
        """Let nothing have been added."""
        self._entry.remove()

    def get_internal(self) -> Any:
        """What is stored; None if nothing was added."""
        data = self._entry.get()
        return None if data is None else self._serializer.decode(data)

    def update_internal(self, stored: Any) -> None:
        """Replace what is stored."""
        self._entry.put(self._encoded(stored))

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Merge what the sources hold into the target; the sources are empty afterwards (S7)."""
        self._entry.merge(target, sources, self._merged)

    def _merged(self, stored: list[bytes]) -> bytes:
        return self._encoded(reduce(self._merge, map(self._serializer.decode, stored)))

    def _encoded(self, stored: Any) -> bytes:
        try:
            return self._serializer.encode(stored)
        except UNENCODABLE as error:
            raise self._entry.refusal(error) from None
