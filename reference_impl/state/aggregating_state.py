"""An accumulator of the current key, into which values are gathered, and what it comes to.

Answers to Flink's `AggregatingState` and `HeapAggregatingState`. Invariant: only the accumulator is stored, never a
value added or a result; if the function raises, it is what it was, for it was given a copy (S5).
"""

from __future__ import annotations

from typing import Any

from reference_impl.state.merging_state import MergingState
from reference_impl.state.serializer import TypeSerializer
from reference_impl.state.state_descriptor import AggregatingStateDescriptor
from reference_impl.state.state_table import StateTable

__all__ = ["AggregatingState"]


class AggregatingState(MergingState):
    """The state that an `AggregatingStateDescriptor` asks for. Mutable."""

    def __init__(
        self, descriptor: AggregatingStateDescriptor, serializer: TypeSerializer, table: StateTable
    ) -> None:
        super().__init__(serializer, table, merge=self._merge_accumulators)
        self.descriptor = descriptor
        self._aggregate = descriptor.aggregate

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

    def _merge_accumulators(self, into: Any, other: Any) -> Any:
        """Looked up only when namespaces are merged: a function that is never merged needs none."""
        return self._aggregate.merge(into, other)
