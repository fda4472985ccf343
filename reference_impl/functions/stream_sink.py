"""Runs a sink function: the last operator of a chain.

Answers to Flink's `StreamSink` and `AbstractUdfStreamOperator`. Invariant: the function's state begins before it is
opened (C45), and nothing but records, checkpoints and the end reaches it.
"""

from __future__ import annotations

from reference_impl.elements import OperatorInput, Record, Watermark
from reference_impl.functions.checkpointed_function import FunctionState
from reference_impl.functions.sink_function import SinkContext, SinkFunction
from reference_impl.internal_timers.internal_timer_service import MIN_WATERMARK
from reference_impl.snapshots.state_contexts import StateInitializationContext, StateSnapshotContext
from reference_impl.task.stream_operator import Closing, Finishing, Opening
from reference_impl.timers import Timers

__all__ = ["StreamSink"]


class StreamSink:
    """Mutable: knows the newest watermark."""

    def __init__(self, *, function: SinkFunction, timers: Timers) -> None:
        self._function = function
        self._state = FunctionState(function)
        self._timers = timers
        self._watermark = MIN_WATERMARK

    def initialize_state(self, context: StateInitializationContext) -> None:
        """Before `open`."""
        self._state.initialize(context)

    def open(self) -> None:
        """Before any element."""
        if isinstance(self._function, Opening):
            self._function.open()

    def process(self, element: OperatorInput) -> None:
        """Give a record to the function."""
        match element:
            case Record():
                self._function.invoke(element.value, self._context_of(element))
            case Watermark():
                self._watermark = max(self._watermark, element.timestamp)
            case _:
                pass

    def _context_of(self, record: Record) -> SinkContext:
        return SinkContext(
            current_processing_time=self._timers.now_ms(),
            current_watermark=self._watermark,
            timestamp=record.timestamp,
        )

    def snapshot_state(self, context: StateSnapshotContext) -> None:
        """In the synchronous part of a checkpoint."""
        self._state.snapshot(context)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Pass it on to the function."""
        self._state.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Pass it on to the function."""
        self._state.notify_checkpoint_aborted(checkpoint_id)

    def finish(self) -> None:
        """No record will come; a checkpoint may (C18)."""
        if isinstance(self._function, Finishing):
            self._function.finish()

    def close(self) -> None:
        """After everything, also after a failure."""
        if isinstance(self._function, Closing):
            self._function.close()
