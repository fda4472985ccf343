"""The documentation's example of operator state: a sink that sends so many elements at a time.

Answers to `BufferingSink` of Flink's "Working with State". Invariant: an element that was taken is sent, or is in the
buffer, and the buffer is in every snapshot; after a restore, at whatever parallelism, the instances' buffers are
together what the snapshot held (S25).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reference_impl.functions.sink_function import SinkContext
from reference_impl.snapshots.state_contexts import FunctionInitializationContext, FunctionSnapshotContext
from reference_impl.state.state_descriptor import ListStateDescriptor

__all__ = ["BufferingSink"]


class BufferingSink:
    """A `SinkFunction` and a `CheckpointedFunction`. Mutable."""

    def __init__(self, *, threshold: int, send: Callable[[list[Any]], None]) -> None:
        if threshold < 1:
            raise ValueError(f"a buffer of {threshold} elements; give 1 or more")
        self._threshold = threshold
        self._send = send
        self._buffered: list[Any] = []
        self._checkpointed: Any = None

    def invoke(self, value: Any, context: SinkContext) -> None:  # noqa: ARG002 - the protocol's
        """Buffer it; a full buffer is sent. One that a smaller parallelism has overfilled goes as a whole."""
        self._buffered.append(value)
        if len(self._buffered) >= self._threshold:
            sent, self._buffered = self._buffered, []
            self._send(sent)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:  # noqa: ARG002 - the protocol's
        """The state is the buffer, and not what it was before (S25)."""
        self._checkpointed.update(self._buffered)

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Register the state on each start; its content counts only after a restore."""
        self._checkpointed = context.operator_state_store.get_list_state(
            ListStateDescriptor(name="buffered-elements")
        )
        if context.is_restored:
            self._buffered.extend(self._checkpointed.get())
