"""One value of the current key, to which each value added is reduced.

Answers to Flink's `ReducingState` and `HeapReducingState`. Invariant: the value is what the function makes of all that
was added, in order; if the function raises, it is what it was (S5).
"""

from __future__ import annotations

from typing import Any

from reference_impl.state.merging_state import MergingState
from reference_impl.state.serializer import TypeSerializer
from reference_impl.state.state_descriptor import ReducingStateDescriptor
from reference_impl.state.state_table import StateTable

__all__ = ["ReducingState"]


class ReducingState(MergingState):
    """The state that a `ReducingStateDescriptor` asks for. Mutable."""

    def __init__(
        self, descriptor: ReducingStateDescriptor, serializer: TypeSerializer, table: StateTable
    ) -> None:
        super().__init__(serializer, table, merge=descriptor.reduce)
        self.descriptor = descriptor

    def get(self) -> Any:
        """The value; None if nothing was added."""
        return self.get_internal()

    def add(self, value: Any) -> None:
        """Reduce the old value and `value` to one; None clears, as in Flink."""
        if value is None:
            self.clear()
            return
        data = self._entry.get()
        self.update_internal(value if data is None else self._merge(self._serializer.decode(data), value))
