"""An accumulator of the current key, into which values are gathered, and what it comes to.

Answers to Flink's `AggregatingState` and `HeapAggregatingState`. Invariant: only the accumulator is stored, never a
value added or a result; if the function raises, it is what it was, for it was given a copy (S5).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Any

from reference_impl.state.serializer import UNENCODABLE, TypeSerializer
from reference_impl.state.state_descriptor import AggregatingStateDescriptor
from reference_impl.state.state_table import KeyedEntry, StateTable

__all__ = ["AggregatingState"]


class AggregatingState:
    """The state that a `AggregatingStateDescriptor` asks for. Mutable."""

    def __init__(
        self, descriptor: AggregatingStateDescriptor, serializer: TypeSerializer, table: StateTable
    ) -> None:
        self.descriptor = descriptor
        self.table = table
        self._entry = KeyedEntry(table)
        self._serializer = serializer
        self._aggregate = descriptor.aggregate

    @property
    def current_namespace(self) -> Any:
        """The namespace that the next access is about."""
        return self._entry.namespace

    def set_current_namespace(self, namespace: Any) -> None:
        """Let accesses be about `namespace` from now on."""
        self._entry.namespace = namespace

    def get(self) -> Any:
        """The result; None if nothing was added."""
        data = self._entry.get()
        return None if data is None else self._aggregate.get_result(self._serializer.decode(data))

    def add(self, value: Any) -> None:
        """Gather `value`; None clears, as in Flink."""
        if value is None:
            self.clear()
            return
        accumulator = self.get_internal()
        if accumulator is None:
            accumulator = self._aggregate.create_accumulator()
        self.update_internal(self._aggregate.add(value, accumulator))

    def clear(self) -> None:
        """Let nothing have been added."""
        self._entry.remove()

    def get_internal(self) -> Any:
        """The accumulator; None if nothing was added."""
        data = self._entry.get()
        return None if data is None else self._serializer.decode(data)

    def update_internal(self, accumulator: Any) -> None:
        """Replace the accumulator."""
        self._entry.put(self._encoded(accumulator))

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Merge the accumulators of the sources into that of the target; the sources are empty afterwards (S7)."""
        self._entry.merge(target, sources, self._merged)

    def _merged(self, stored: list[bytes]) -> bytes:
        return self._encoded(reduce(self._aggregate.merge, map(self._serializer.decode, stored)))

    def _encoded(self, value: Any) -> bytes:
        try:
            return self._serializer.encode(value)
        except UNENCODABLE as error:
            raise self._entry.refusal(error) from None
