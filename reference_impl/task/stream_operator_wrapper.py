"""One operator of a chain with what is its own: its mail, its timers, its state.

Answers to Flink's `StreamOperatorWrapper`. Invariant: an operator that has finished has no mail and no timer
left, so nothing of it runs, and nothing that it emits arrives, after the next operator's end of input (M45,
FLINK-14228).
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, Protocol

from reference_impl.checkpoint_listener import HearsOfAborted, HearsOfComplete
from reference_impl.checkpoint_metadata import CheckpointMetaData
from reference_impl.checkpoint_options import CheckpointOptions
from reference_impl.events import StopMode
from reference_impl.mailbox_executor import MailboxExecutor
from reference_impl.task.stream_operator import (
    BoundedMultiInput,
    BoundedOneInput,
    Closing,
    EmitsOnFinalCheckpoint,
    Finishing,
    Opening,
    PreparesSnapshot,
    StreamOperator,
    TwoInputStreamOperator,
    can,
)
from reference_impl.timers import Timers

__all__ = ["OperatorStateHandler", "StreamOperatorWrapper"]


class OperatorStateHandler(Protocol):
    """Keeps the state of one operator; `reference_impl.snapshots` has one."""

    def initialize_operator_state(self, operator: Any) -> None:
        """Build the backends from what was restored, then let the operator take over."""

    def snapshot_state(self, operator: Any, metadata: CheckpointMetaData, options: CheckpointOptions) -> Any:
        """The synchronous part, in the order of C6; the futures of the rest."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """For the backends."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """For the backends."""

    def notify_checkpoint_subsumed(self, checkpoint_id: int) -> None:
        """For the backends alone: they may clean up what is shared (C13)."""

    def close(self) -> None:
        """Let go of states and timers."""


class StreamOperatorWrapper:
    """Mutable: is closed in the end."""

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
        """Whether it takes part in nothing any more (C3, C13)."""
        self._executor = executor
        self._state_handler = state_handler
        self._is_head = is_head
        self._is_released = False

    @property
    def _able(self) -> Any:
        """The operator, for what only `can` knows that it has."""
        return self.operator

    @property
    def emits_on_final_checkpoint(self) -> bool:
        """Whether the end of data must wait for it (FLINK-38614)."""
        operator = self._able
        return can(operator, EmitsOnFinalCheckpoint) and operator.emits_on_final_checkpoint

    def initialize_state_and_open(self) -> None:
        """State first (C45)."""
        if self._state_handler is not None:
            self._state_handler.initialize_operator_state(self.operator)
        if can(self._able, Opening):
            self._able.open()

    def end_input(self, input_id: int = 1) -> None:
        """Input `input_id` of the operator has ended."""
        operator = self._able
        if can(operator, TwoInputStreamOperator):
            if can(operator, BoundedMultiInput):
                operator.end_input(input_id)
        elif can(operator, BoundedOneInput):
            operator.end_input()

    def finish(self, mode: StopMode) -> None:
        """End of input (the head has had it), no more timers, its mail, `finish`, the mail of that (M45)."""
        drains = mode is StopMode.DRAIN
        if drains and not self._is_head:
            self.end_input()
        self.timers.quiesce()
        self._run_own_mail()
        if drains and can(self._able, Finishing):
            self._able.finish()
        self._run_own_mail()

    def _run_own_mail(self) -> None:
        """All of it: the deferrable too, else windows would be lost behind the end of data (FLINK-39481)."""
        while self._executor.try_yield_ignoring_deferrable():
            pass

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        """Before the barrier (C3)."""
        if can(self._able, PreparesSnapshot) and not self.is_closed:
            self._able.prepare_snapshot_pre_barrier(checkpoint_id)

    def snapshot_state(
        self,
        futures: MutableMapping[str, Any],
        metadata: CheckpointMetaData,
        options: CheckpointOptions,
    ) -> None:
        """Add this operator's part to `futures`; one without a handler, or closed, has none (C3, C10)."""
        if self._state_handler is not None and not self.is_closed:
            futures[self.operator_id] = self._state_handler.snapshot_state(self.operator, metadata, options)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Not if it is closed (C13)."""
        if self.is_closed:
            return
        if can(self._able, HearsOfComplete):
            self._able.notify_checkpoint_complete(checkpoint_id)
        if self._state_handler is not None:
            self._state_handler.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Even if it is closed (C13)."""
        if can(self._able, HearsOfAborted):
            self._able.notify_checkpoint_aborted(checkpoint_id)
        if self._state_handler is not None:
            self._state_handler.notify_checkpoint_aborted(checkpoint_id)

    def notify_checkpoint_subsumed(self, checkpoint_id: int) -> None:
        """Nothing of the user's hears of it (C13)."""
        if self._state_handler is not None and not self.is_closed:
            self._state_handler.notify_checkpoint_subsumed(checkpoint_id)

    def close(self) -> None:
        """Once; no timer fires afterwards (T16)."""
        self.is_closed = True
        if not self._is_released:
            self._is_released = True
            self.timers.quiesce()
            try:
                if can(self._able, Closing):
                    self._able.close()
            finally:
                if self._state_handler is not None:
                    self._state_handler.close()
