"""The interface between an operator and its chain: what an operator must and may do, and the chain's wrapper.

Answers to Flink's `StreamOperator`, `Input`, `TwoInputStreamOperator`, `BoundedOneInput`, `BoundedMultiInput`,
`StreamOperatorFactory` and `StreamOperatorWrapper`. Invariant: one method is obligatory; each ability is a protocol of
its own, which the chain looks for once a type. An operator emits through the `emit` that it was built with, and may do
so up to `finish`.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from functools import cache
from typing import Any, Protocol, TypeGuard, TypeVar, runtime_checkable

from reference_impl.checkpoint_events import (
    CheckpointMetaData,
    CheckpointOptions,
    HearsOfAborted,
    HearsOfComplete,
    StopMode,
)
from reference_impl.elements import OperatorInput
from reference_impl.mailbox.availability import Availability
from reference_impl.mailbox.mailbox import MailboxExecutor
from reference_impl.mailbox.timers import Timers

__all__ = [
    "BoundedMultiInput",
    "BoundedOneInput",
    "Closing",
    "Emit",
    "EmitsOnFinalCheckpoint",
    "Finishing",
    "InitializesState",
    "Opening",
    "OperatorStateHandler",
    "PreparesSnapshot",
    "SnapshotsState",
    "StreamOperator",
    "StreamOperatorFactory",
    "StreamOperatorWrapper",
    "TwoInputStreamOperator",
    "WithRoom",
    "can",
]

T = TypeVar("T")

Emit = Callable[[OperatorInput], None]


class StreamOperator(Protocol):
    """An operator of one input."""

    def process(self, element: OperatorInput) -> None:
        """Take `element` in: a record, a watermark, its status, a latency marker or a record attribute."""


@runtime_checkable
class TwoInputStreamOperator(Protocol):
    """An operator of two inputs; it can only be the head of its chain."""

    def process1(self, element: OperatorInput) -> None:
        """Take an element of the first input in."""

    def process2(self, element: OperatorInput) -> None:
        """Take an element of the second input in."""


@runtime_checkable
class InitializesState(Protocol):
    """Has state, or wants to know whether it was restored (C45)."""

    def initialize_state(self, context: Any) -> None:
        """Register state and take over what it holds; before `open`."""


@runtime_checkable
class Opening(Protocol):
    """Has something to do before its first element."""

    def open(self) -> None:
        """Begin; whoever is further down has begun already (M46)."""


@runtime_checkable
class BoundedOneInput(Protocol):
    """Wants to know that its input has ended."""

    def end_input(self) -> None:
        """No element follows; emit what waited for one. Not told on a stop without a drain (M44, M45)."""


@runtime_checkable
class BoundedMultiInput(Protocol):
    """Wants to know of each of its inputs that it has ended."""

    def end_input(self, input_id: int) -> None:
        """No element follows on input `input_id`, counted from 1."""


@runtime_checkable
class Finishing(Protocol):
    """Has something to emit when all is done."""

    def finish(self) -> None:
        """Emit the last there is; what mail this puts still runs (M45). Not called on a stop without a drain."""


@runtime_checkable
class Closing(Protocol):
    """Holds something that it must give back."""

    def close(self) -> None:
        """Give it back; nothing can be emitted any more. Called once, after a failure too."""


@runtime_checkable
class PreparesSnapshot(Protocol):
    """Has something to emit before the barrier."""

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        """Emit what is not to be kept in the snapshot (C3)."""


@runtime_checkable
class SnapshotsState(Protocol):
    """Puts into its state what it holds elsewhere, for each checkpoint."""

    def snapshot_state(self, context: Any) -> None:
        """The synchronous part (C6); the backends' own snapshots follow it."""


@runtime_checkable
class WithRoom(Protocol):
    """Can say beforehand that it would have to wait."""

    @property
    def room(self) -> Availability:
        """Whether an element would be admitted at once (A33)."""


@runtime_checkable
class EmitsOnFinalCheckpoint(Protocol):
    """Emits records when it hears of its last checkpoint, so the end of data must wait for them (FLINK-38614)."""

    @property
    def emits_on_final_checkpoint(self) -> bool:
        """Whether it does, as it was built."""


class StreamOperatorFactory(Protocol):
    """Builds one operator of a chain, for example with `functools.partial(ordered_wait, function=..., ...)`."""

    def __call__(
        self,
        *,
        executor: MailboxExecutor,
        timers: Timers,
        emit: Emit,
        fail: Callable[[BaseException], None],
        downstream: Callable[[], Availability] | None,
    ) -> StreamOperator | TwoInputStreamOperator:
        """The operator at this place: its mail, its timers, who takes what it emits, and whether that one has room."""


def can(operator: object, ability: type[T]) -> TypeGuard[T]:
    """Whether `operator` has `ability`, a protocol of methods; judged by its class, once a class."""
    kind: Any = type(operator)
    wanted: Any = ability
    return _has(kind, wanted)


@cache
def _has(kind: Any, ability: Any) -> bool:
    return all(hasattr(kind, name) for name in vars(ability) if not name.startswith("_"))


class OperatorStateHandler(Protocol):
    """Keeps the state of one operator; `reference_impl.checkpoints` has one."""

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
    """One operator of a chain with what is its own: its mail, its timers, its state.

    Mutable: is closed in the end.

    Answers to Flink's `StreamOperatorWrapper`. Invariant: an operator that has finished has no mail and no timer left,
    so nothing of it runs, and nothing that it emits arrives, after the next operator's end of input (M45, FLINK-14228).
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
        """Whether it takes part in nothing any more (C3, C13)."""
        self._executor = executor
        self._state_handler = state_handler
        self._is_head = is_head
        self._is_released = False

    @property
    def emits_on_final_checkpoint(self) -> bool:
        """Whether the end of data must wait for it (FLINK-38614)."""
        operator = self.operator
        return can(operator, EmitsOnFinalCheckpoint) and operator.emits_on_final_checkpoint

    def initialize_state_and_open(self) -> None:
        """State first (C45)."""
        if self._state_handler is not None:
            self._state_handler.initialize_operator_state(self.operator)
        if can(self.operator, Opening):
            self.operator.open()

    def end_input(self, input_id: int = 1) -> None:
        """Input `input_id` of the operator has ended."""
        operator = self.operator
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
        if drains and can(self.operator, Finishing):
            self.operator.finish()
        self._run_own_mail()

    def _run_own_mail(self) -> None:
        """All of it: the deferrable too, else windows would be lost behind the end of data (FLINK-39481)."""
        while self._executor.try_yield_ignoring_deferrable():
            pass

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        """Before the barrier (C3)."""
        if can(self.operator, PreparesSnapshot) and not self.is_closed:
            self.operator.prepare_snapshot_pre_barrier(checkpoint_id)

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
        if can(self.operator, HearsOfComplete):
            self.operator.notify_checkpoint_complete(checkpoint_id)
        if self._state_handler is not None:
            self._state_handler.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Even if it is closed (C13)."""
        if can(self.operator, HearsOfAborted):
            self.operator.notify_checkpoint_aborted(checkpoint_id)
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
                if can(self.operator, Closing):
                    self.operator.close()
            finally:
                if self._state_handler is not None:
                    self._state_handler.close()
