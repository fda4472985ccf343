"""Windows by count: so many records of a key, then the next so many.

Answers to Flink's `countWindow(size)`: a `GlobalWindow` with a purging `CountTrigger`. Invariant: each record of a key
is in exactly one window, in the order of arrival; a window that is not full yet is state, and is never emitted.
"""

from __future__ import annotations

from typing import Any

from reference_impl.functions.keyed_process_function import Collector, ProcessContext
from reference_impl.functions.runtime_context import RuntimeContext
from reference_impl.state.state_descriptor import ListStateDescriptor

__all__ = ["CountWindow"]


class CountWindow:
    """A `KeyedProcessFunction` that emits the list of each `size` values of a key. Mutable once opened.

    One key for all makes it `countWindowAll`.
    """

    def __init__(self, *, size: int) -> None:
        if size < 1:
            raise ValueError(f"a window of {size} records; give 1 or more")
        self._size = size
        self._values: Any = None

    def open(self, context: RuntimeContext) -> None:
        """Register the window under way."""
        self._values = context.get_list_state(ListStateDescriptor(name="window-contents"))

    def process_element(
        self,
        value: Any,
        context: ProcessContext,  # noqa: ARG002 - the protocol's
        out: Collector,
    ) -> None:
        """Keep the value; the last of a window empties it."""
        values = [*self._values.get(), value]
        if len(values) < self._size:
            self._values.add(value)
        else:
            self._values.clear()
            out(values)
