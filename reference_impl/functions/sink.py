"""A function at the end of the stream, the operator that runs it, and the operator state that a function may keep.

Answers to Flink's `SinkFunction`, `StreamSink`, `CheckpointedFunction`, the legacy `ListCheckpointed`, and
`StreamingFunctionUtils`. Invariant: each record of the stream is given to `invoke` once, in order, on the task's
thread; a function's state is registered on every start and saved in every checkpoint (S25).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from reference_impl.checkpoint_events import HearsOfAborted, HearsOfComplete
from reference_impl.checkpoints.state_handler import (
    FunctionInitializationContext,
    FunctionSnapshotContext,
    StateInitializationContext,
    StateSnapshotContext,
)
from reference_impl.elements import OperatorInput, Record, Watermark
from reference_impl.mailbox.timers import Timers
from reference_impl.state.internal_timers import MIN_WATERMARK
from reference_impl.state.state_descriptor import ListStateDescriptor
from reference_impl.task.stream_operator import Closing, Finishing, InitializesState, Opening, SnapshotsState

__all__ = [
    "CheckpointedFunction",
    "FunctionState",
    "ListCheckpointed",
    "SinkContext",
    "SinkFunction",
    "StreamSink",
]

_LEGACY_STATE = "_default_"


@runtime_checkable
class CheckpointedFunction(Protocol):
    """A function that keeps operator state."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """On each start: register the states, and read them where `context.is_restored`."""

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """In each checkpoint's synchronous part: bring the states up to date."""


@runtime_checkable
class ListCheckpointed(Protocol):
    """The legacy form: the state is handed over and handed back."""

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> Sequence[Any] | None:
        """The state, in the parts in which it may be redistributed; None is none, as in Flink."""

    def restore_state(self, state: Sequence[Any]) -> None:
        """What of it has become this instance's; called only after a restore, and not for nothing."""


class FunctionState:
    """Functions with operator state of their own, and who saves and restores it for them.

    The state of one function, whichever of the two forms it has, or none. Mutable.

    Answers to Flink's `CheckpointedFunction`, the legacy `ListCheckpointed`, and `StreamingFunctionUtils`. Invariant: a
    function's state is registered on every start and saved in every checkpoint (S25); what `ListCheckpointed` returns
    is split evenly at another parallelism, like any list state.
    """

    def __init__(self, function: object) -> None:
        if hasattr(function, "initialize_state") and hasattr(function, "restore_state"):
            raise TypeError(
                f"{type(function).__name__} has both initialize_state and restore_state; keep one of them"
            )
        self._function = function
        self._legacy: Any = None

    def initialize(self, context: FunctionInitializationContext) -> None:
        """Before `open` (C45); a function that adds to its state at once may have this half alone."""
        match self._function:
            case ListCheckpointed() as function:
                self._legacy = context.operator_state_store.get_list_state(
                    ListStateDescriptor(name=_LEGACY_STATE)
                )
                if context.is_restored:
                    function.restore_state(list(self._legacy.get()))
            case InitializesState() as function:
                function.initialize_state(context)

    def snapshot(self, context: FunctionSnapshotContext) -> None:
        """In the synchronous part."""
        match self._function:
            case ListCheckpointed() as function:
                state = function.snapshot_state(context.checkpoint_id, context.checkpoint_timestamp)
                self._legacy.update(state or ())
            case SnapshotsState() as function:
                function.snapshot_state(context)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Pass it on to a function that wants to hear it."""
        if isinstance(self._function, HearsOfComplete):
            self._function.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Pass it on to a function that wants to hear it."""
        if isinstance(self._function, HearsOfAborted):
            self._function.notify_checkpoint_aborted(checkpoint_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkContext:
    """Of the record at hand."""

    current_processing_time: int
    current_watermark: int
    timestamp: int | None
    """The record's event time."""


class SinkFunction(Protocol):
    """A function at the end of the stream.

    What a user writes; `open()`, `finish()` and `close()`, state and notifications are optional.

    Answers to Flink's `SinkFunction` and its `Context`. Invariant: each record of the stream is given to `invoke` once,
    in order, on the task's thread.
    """

    def invoke(self, value: Any, context: SinkContext) -> None:
        """A record has come."""


class StreamSink:
    """Runs a sink function: the last operator of a chain.

    Mutable: knows the newest watermark.

    Answers to Flink's `StreamSink` and `AbstractUdfStreamOperator`. Invariant: the function's state begins before it is
    opened (C45), and nothing but records, checkpoints and the end reaches it.
    """

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
