"""One value of the current key, to which each value added is reduced.

Answers to Flink's `ReducingState` and `HeapReducingState`. Invariant: the value is what the function makes of all that
was added, in order; if the function raises, it is what it was (S5).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Any

from reference_impl.state.serializer import UNENCODABLE, TypeSerializer
from reference_impl.state.state_descriptor import ReducingStateDescriptor
from reference_impl.state.state_table import KeyedEntry, StateTable

__all__ = ["ReducingState"]


class ReducingState:
    """The state that a `ReducingStateDescriptor` asks for. Mutable."""

    def __init__(
        self, descriptor: ReducingStateDescriptor, serializer: TypeSerializer, table: StateTable
    ) -> None:
        self.descriptor = descriptor
        self.table = table
        self._entry = KeyedEntry(table)
        self._serializer = serializer
        self._reduce = descriptor.reduce

    @property
    def current_namespace(self) -> Any:
        """The namespace that the next access is about."""
        return self._entry.namespace

    def set_current_namespace(self, namespace: Any) -> None:
        """Let accesses be about `namespace` from now on."""
        self._entry.namespace = namespace

    def get(self) -> Any:
        """The value; None if nothing was added."""
        data = self._entry.get()
        return None if data is None else self._serializer.decode(data)

    def add(self, value: Any) -> None:
        """Reduce the old value and `value` to one; None clears, as in Flink."""
        if value is None:
            self.clear()
            return
        data = self._entry.get()
        self.update_internal(value if data is None else self._reduce(self._serializer.decode(data), value))

    def clear(self) -> None:
        """Let nothing have been added."""
        self._entry.remove()

    def get_internal(self) -> Any:
        """What is stored, which here is the value."""
        return self.get()

    def update_internal(self, value: Any) -> None:
        """Replace what is stored."""
        self._entry.put(self._encoded(value))

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Reduce the values of the sources into that of the target; the sources are empty afterwards (S7)."""
        self._entry.merge(target, sources, self._merged)

    def _merged(self, stored: list[bytes]) -> bytes:
        return self._encoded(reduce(self._reduce, map(self._serializer.decode, stored)))

    def _encoded(self, value: Any) -> bytes:
        try:
            return self._serializer.encode(value)
        except UNENCODABLE as error:
            raise self._entry.refusal(error) from None
