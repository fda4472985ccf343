"""Sink functions, the operator that runs them, and operator state for functions.

Answers to Flink's `SinkFunction`, `StreamSink`, `CheckpointedFunction`, the legacy `ListCheckpointed`, and
`StreamingFunctionUtils`. Invariant: `invoke` gets each record once, in order, on the task's thread; a function's state
is registered at every start and saved in every checkpoint (S25).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from reference_impl.checkpoint_events import HearsOfAborted, HearsOfComplete, can
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

_LEGACY_STATE = "_default_"


class CheckpointedFunction(Protocol):
    """A function with operator state."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Called at each start: register the states, and read them if `context.is_restored`."""

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Called in the synchronous part of each checkpoint: update the states."""


class ListCheckpointed(Protocol):
    """The legacy form: the function returns its state and gets it back."""

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> Sequence[Any] | None:
        """The state as a list, whose items may be redistributed; None counts as empty, as in Flink."""

    def restore_state(self, state: Sequence[object]) -> None:
        """Called after a restore with this subtask's part of the state."""


class FunctionState:
    """Saves and restores the operator state of a function, in either of the two forms, or none. Mutable.

    Answers to Flink's `CheckpointedFunction`, the legacy `ListCheckpointed`, and `StreamingFunctionUtils`. Invariant:
    a function's state is registered at every start and saved in every checkpoint (S25); the list of a
    `ListCheckpointed` is redistributed like any list state.
    """

    def __init__(self, function: object) -> None:
        if hasattr(function, "initialize_state") and hasattr(function, "restore_state"):
            raise TypeError(
                f"{type(function).__name__} has both initialize_state and restore_state; keep one of them"
            )
        self._function: Any = function
        self._legacy: Any = None

    def initialize(self, context: FunctionInitializationContext) -> None:
        """Called before `open` (C45). A function may have `initialize_state` without `snapshot_state`."""
        function = self._function
        if can(function, ListCheckpointed):
            self._legacy = context.operator_state_store.get_list_state(
                ListStateDescriptor(name=_LEGACY_STATE)
            )
            if context.is_restored:
                function.restore_state(list(self._legacy.get()))
        elif can(function, InitializesState):
            function.initialize_state(context)

    def snapshot(self, context: FunctionSnapshotContext) -> None:
        """Called in the synchronous part of a checkpoint."""
        function = self._function
        if can(function, ListCheckpointed):
            state = function.snapshot_state(context.checkpoint_id, context.checkpoint_timestamp)
            self._legacy.update(state or ())
        elif can(function, SnapshotsState):
            function.snapshot_state(context)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notify the function if it has that method."""
        if can(self._function, HearsOfComplete):
            self._function.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notify the function if it has that method."""
        if can(self._function, HearsOfAborted):
            self._function.notify_checkpoint_aborted(checkpoint_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkContext:
    """The time of the current record."""

    current_processing_time: int
    current_watermark: int
    timestamp: int | None
    """The record's event time."""


class SinkFunction(Protocol):
    """A function at the end of a stream; `open()`, `finish()`, `close()`, state and notifications are optional.

    Answers to Flink's `SinkFunction` and its `Context`. Invariant: `invoke` gets each record once, in order, on the
    task's thread.
    """

    def invoke(self, value: Any, context: SinkContext) -> None:
        """Called for each record."""


class StreamSink:
    """Runs a sink function as the last operator of a chain. Mutable: the current watermark.

    Answers to Flink's `StreamSink` and `AbstractUdfStreamOperator`. Invariant: the function's state is initialized
    before the function is opened (C45).
    """

    def __init__(self, *, function: SinkFunction, timers: Timers) -> None:
        self._function = function
        self._state = FunctionState(function)
        self._timers = timers
        self._watermark = MIN_WATERMARK

    def initialize_state(self, context: StateInitializationContext) -> None:
        self._state.initialize(context)

    def open(self) -> None:
        if can(self._function, Opening):
            self._function.open()

    def process(self, element: OperatorInput) -> None:
        match element:
            case Record():
                context = SinkContext(
                    current_processing_time=self._timers.now_ms(),
                    current_watermark=self._watermark,
                    timestamp=element.timestamp,
                )
                self._function.invoke(element.value, context)
            case Watermark():
                self._watermark = max(self._watermark, element.timestamp)
            case _:
                pass

    def snapshot_state(self, context: StateSnapshotContext) -> None:
        self._state.snapshot(context)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._state.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._state.notify_checkpoint_aborted(checkpoint_id)

    def finish(self) -> None:
        """No record follows; a checkpoint may (C18)."""
        if can(self._function, Finishing):
            self._function.finish()

    def close(self) -> None:
        if can(self._function, Closing):
            self._function.close()
