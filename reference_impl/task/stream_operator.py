"""The interface between an operator and its chain: required and optional methods, and the chain's wrapper.

Answers to Flink's `StreamOperator`, `Input`, `TwoInputStreamOperator`, `BoundedOneInput`, `BoundedMultiInput`,
`StreamOperatorFactory` and `StreamOperatorWrapper`. Invariant: only `process` is required; each optional ability is a
protocol, which the chain checks once for each class. An operator emits through the `emit` that it was built with,
until `finish` has returned.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Protocol, runtime_checkable

from reference_impl.checkpoint_events import (
    CheckpointMetaData,
    CheckpointOptions,
    HearsOfAborted,
    HearsOfComplete,
    StopMode,
    can,
)
from reference_impl.checkpoints.async_checkpoint import OperatorSnapshotFutures
from reference_impl.elements import OperatorInput
from reference_impl.mailbox.availability import Availability
from reference_impl.mailbox.mailbox import MailboxExecutor
from reference_impl.mailbox.timers import Timers

Emit = Callable[[OperatorInput], None]


class StreamOperator(Protocol):
    """An operator with one input."""

    def process(self, element: OperatorInput) -> None:
        """Process `element`: a record, watermark, watermark status, latency marker or record attributes."""


class TwoInputStreamOperator(Protocol):
    """An operator with two inputs; it can only be the head of its chain."""

    def process1(self, element: OperatorInput) -> None: ...

    def process2(self, element: OperatorInput) -> None: ...


class InitializesState(Protocol):
    """An operator with state, or one that needs to know whether it was restored (C45)."""

    def initialize_state(self, context: object) -> None:
        """Register states and read their restored content; called before `open`."""


class Opening(Protocol):
    """An operator with work to do before its first element."""

    def open(self) -> None:
        """Called after the operators downstream were opened (M46)."""


class BoundedOneInput(Protocol):
    """An operator that must know when its input ends."""

    def end_input(self) -> None:
        """Emit what was held back for further input. Not called on a stop without drain (M44, M45)."""


class BoundedMultiInput(Protocol):
    """An operator that must know when each of its inputs ends."""

    def end_input(self, input_id: int) -> None:
        """Input `input_id`, counted from 1, has ended."""


@runtime_checkable
class Finishing(Protocol):
    """An operator with something to emit at its end."""

    def finish(self) -> None:
        """Emit the last output; mail put here still runs (M45). Not called on a stop without drain."""


@runtime_checkable
class Closing(Protocol):
    """An operator that holds resources."""

    def close(self) -> None:
        """Release resources; nothing can be emitted. Called once, also after a failure."""


class PreparesSnapshot(Protocol):
    """An operator with something to emit before a barrier."""

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        """Emit what is not to be in the snapshot (C3)."""


class SnapshotsState(Protocol):
    """An operator that updates its state for each checkpoint."""

    def snapshot_state(self, context: object) -> None:
        """Called in the synchronous part, before the backends' snapshots (C6)."""


class WithRoom(Protocol):
    """An operator that can tell in advance whether it would have to wait."""

    @property
    def room(self) -> Availability:
        """Whether an element would be admitted at once (A33)."""


class EmitsOnFinalCheckpoint(Protocol):
    """An operator that emits when notified of its last checkpoint, so the end of data must wait (FLINK-38614)."""

    @property
    def emits_on_final_checkpoint(self) -> bool:
        """Whether this instance does so."""


class StreamOperatorFactory(Protocol):
    """Builds one operator of a chain, for example `functools.partial(ordered_wait, function=..., ...)`."""

    def __call__(
        self,
        *,
        executor: MailboxExecutor,
        timers: Timers,
        emit: Emit,
        fail: Callable[[BaseException], None],
        downstream: Callable[[], Availability] | None,
    ) -> StreamOperator | TwoInputStreamOperator:
        """`downstream` says whether the next operator that can tell has room; None if there always is."""


class OperatorStateHandler(Protocol):
    """The state of one operator; implemented in `reference_impl.checkpoints`."""

    def initialize_operator_state(self, operator: object) -> None:
        """Restore the backends, then call the operator's `initialize_state`."""

    def snapshot_state(
        self, operator: object, metadata: CheckpointMetaData, options: CheckpointOptions
    ) -> OperatorSnapshotFutures:
        """Take the synchronous part, in the order of C6; return the futures of the rest."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notify the backends."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notify the backends."""

    def notify_checkpoint_subsumed(self, checkpoint_id: int) -> None:
        """Notify the backends, which may clean up state that checkpoints share (C13)."""

    def close(self) -> None:
        """Dispose of states and timers."""


class StreamOperatorWrapper:
    """One operator of a chain, with its mailbox executor, timers and state handler. Mutable: closed at the end.

    Answers to Flink's `StreamOperatorWrapper`. Invariant: a finished operator has neither mail nor timers left, so it
    emits nothing after the next operator's end of input (M45, FLINK-14228).
    """

    def __init__(
        self,
        operator: StreamOperator | TwoInputStreamOperator,
        *,
        operator_id: str,
        executor: MailboxExecutor,
        timers: Timers,
        state_handler: OperatorStateHandler | None,
        is_head: bool,
    ) -> None:
        self.operator = operator
        self.operator_id = operator_id
        self.timers = timers
        self.is_closed = False
        """Whether it takes part in no further checkpoint (C3, C13)."""
        self._executor = executor
        self._state_handler = state_handler
        self._is_head = is_head
        self._is_released = False

    @property
    def emits_on_final_checkpoint(self) -> bool:
        """Whether the end of data must wait for this operator (FLINK-38614)."""
        operator = self.operator
        return can(operator, EmitsOnFinalCheckpoint) and operator.emits_on_final_checkpoint

    def initialize_state_and_open(self) -> None:
        """Initialize the state, then open (C45)."""
        if self._state_handler is not None:
            self._state_handler.initialize_operator_state(self.operator)
        if can(self.operator, Opening):
            self.operator.open()

    def end_input(self, input_id: int = 1) -> None:
        """Tell the operator that its input `input_id` has ended."""
        operator = self.operator
        if can(operator, TwoInputStreamOperator):
            if can(operator, BoundedMultiInput):
                operator.end_input(input_id)
        elif can(operator, BoundedOneInput):
            operator.end_input()

    def finish(self, mode: StopMode) -> None:
        """End the input (except for the head), stop timers, run its mail, call `finish`, run the new mail (M45)."""
        drains = mode is StopMode.DRAIN
        if drains and not self._is_head:
            self.end_input()
        self.timers.quiesce()
        self._run_own_mail()
        if drains and can(self.operator, Finishing):
            self.operator.finish()
        self._run_own_mail()

    def _run_own_mail(self) -> None:
        """Run also deferrable mail; otherwise windows would be lost after the end of data (FLINK-39481)."""
        while self._executor.try_yield_ignoring_deferrable():
            pass

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        if can(self.operator, PreparesSnapshot) and not self.is_closed:
            self.operator.prepare_snapshot_pre_barrier(checkpoint_id)

    def snapshot_state(
        self,
        futures: MutableMapping[str, OperatorSnapshotFutures],
        metadata: CheckpointMetaData,
        options: CheckpointOptions,
    ) -> None:
        """Add this operator's part to `futures`, unless it is closed or has no state handler (C3, C10)."""
        if self._state_handler is not None and not self.is_closed:
            futures[self.operator_id] = self._state_handler.snapshot_state(self.operator, metadata, options)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """React to a complete checkpoint; not called for a closed operator (C13)."""
        if self.is_closed:
            return
        if can(self.operator, HearsOfComplete):
            self.operator.notify_checkpoint_complete(checkpoint_id)
        if self._state_handler is not None:
            self._state_handler.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Called even for a closed operator (C13)."""
        if can(self.operator, HearsOfAborted):
            self.operator.notify_checkpoint_aborted(checkpoint_id)
        if self._state_handler is not None:
            self._state_handler.notify_checkpoint_aborted(checkpoint_id)

    def notify_checkpoint_subsumed(self, checkpoint_id: int) -> None:
        """Notify the state handler only; user code is not called (C13)."""
        if self._state_handler is not None and not self.is_closed:
            self._state_handler.notify_checkpoint_subsumed(checkpoint_id)

    def close(self) -> None:
        """Close once; no timer fires afterwards (T16)."""
        self.is_closed = True
        if not self._is_released:
            self._is_released = True
            self.timers.quiesce()
            try:
                if can(self.operator, Closing):
                    self.operator.close()
            finally:
                if self._state_handler is not None:
                    self._state_handler.close()
