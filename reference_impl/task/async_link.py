"""An asynchronous operator, of whatever design, as the last link of a chain; its state is its elements.

Answers to an `AsyncWaitOperatorFactory` with a `StreamOperatorStateHandler`. Invariant: a snapshot holds the elements
as they are, not serialised, so that whoever stores the checkpoint writes each of them once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol

from reference_impl.checkpoint_events import CheckpointMetaData, CheckpointOptions
from reference_impl.checkpoints.async_checkpoint import OperatorSnapshotFutures
from reference_impl.elements import OperatorInput, QueueElement
from reference_impl.mailbox.availability import Availability
from reference_impl.mailbox.mailbox import MailboxExecutor
from reference_impl.mailbox.timers import Timers
from reference_impl.state.snapshot_future import SnapshotFuture
from reference_impl.task.operator_chain import OperatorLink

__all__ = ["AsyncOperator", "BuildAsyncOperator", "Fed", "PatientlyFed", "async_link"]


class AsyncOperator(Protocol):
    """What every design has."""

    @property
    def room(self) -> Availability:
        """Whether an element would be admitted at once (A33)."""

    def open(self, restored: Iterable[QueueElement] = ()) -> None:
        """Replay a snapshot (A61)."""

    def process(self, element: OperatorInput) -> None:
        """Take an element in (A27)."""

    def snapshot(self) -> Sequence[QueueElement]:
        """What has not left (A56)."""

    def end_input(self) -> None:
        """Drain (A66)."""

    def close(self) -> None:
        """Release what it holds."""


class BuildAsyncOperator(Protocol):
    """Builds the operator that calls, in its place of the chain."""

    def __call__(
        self,
        *,
        executor: MailboxExecutor,
        timers: Timers,
        emit: Callable[[OperatorInput], None],
        fail: Callable[[BaseException], None],
    ) -> AsyncOperator:
        """The operator."""


class PatientlyFed:
    """The operator, fed though its queue is full: it waits inside `process`, and mail runs meanwhile. Mutable.

    The queue of Flink before FLINK-39835. `entering` is what waits for a slot; it belongs to a snapshot (FLINK-7949).
    """

    def __init__(self, operator: AsyncOperator, restored: Iterable[QueueElement]) -> None:
        self._operator = operator
        self._restored = restored
        self.entering: tuple[Any, ...] = ()
        self.snapshot = operator.snapshot

    def open(self) -> None:
        """Replay."""
        restored, self._restored = self._restored, ()
        self._operator.open(restored)

    def process(self, element: OperatorInput) -> None:
        """It may wait here."""
        self.entering = (element,)
        self._operator.process(element)
        self.entering = ()

    def end_input(self) -> None:
        """Drain."""
        self._operator.end_input()

    def close(self) -> None:
        """Release what it holds."""
        self._operator.close()


class Fed:
    """The operator, fed only while it has room."""

    entering = ()

    def __init__(self, operator: AsyncOperator, restored: Iterable[QueueElement]) -> None:
        self._operator = operator
        self._restored = restored
        self.process = operator.process
        self.snapshot = operator.snapshot

    def open(self) -> None:
        """Replay."""
        restored, self._restored = self._restored, ()
        self._operator.open(restored)

    @property
    def room(self) -> Availability:
        """Whether an element would be admitted at once (A33)."""
        return self._operator.room

    def end_input(self) -> None:
        """Drain."""
        self._operator.end_input()

    def close(self) -> None:
        """Release what it holds."""
        self._operator.close()


def async_link(
    build: BuildAsyncOperator,
    *,
    operator_id: str,
    restored: Iterable[QueueElement],
    is_hard: bool,
    blocked: Callable[[tuple[Any, ...]], tuple[Any, ...]],
) -> OperatorLink:
    """The link. `is_hard`: fed without room; `blocked`: what a snapshot holds of the element that waits for a slot."""
    kind = PatientlyFed if is_hard else Fed

    def built(*, downstream: Callable[[], Availability] | None, **parts: Any) -> Fed | PatientlyFed:
        if downstream is not None:  # not every design knows it
            parts["downstream"] = downstream
        return kind(build(**parts), restored)

    return OperatorLink(
        operator_id=operator_id, build=built, state_handler=partial(_ElementState, blocked=blocked)
    )


class _ElementState:
    """An `OperatorStateHandler`: the elements are the state, and were replayed by `open`."""

    def __init__(self, operator: Fed | PatientlyFed, timers: Timers, *, blocked: Any) -> None:
        del timers
        self._operator = operator
        self._blocked = blocked

    def initialize_operator_state(self, operator: Any) -> None:
        """See `open`."""

    def snapshot_state(
        self, operator: Any, metadata: CheckpointMetaData, options: CheckpointOptions
    ) -> OperatorSnapshotFutures:
        """They are frozen values: there is nothing to copy, nor an asynchronous part."""
        del operator, metadata, options
        elements = (*self._operator.snapshot(), *self._blocked(self._operator.entering))
        return OperatorSnapshotFutures(managed_operator_state=SnapshotFuture.of(elements))

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Nothing is shared between checkpoints."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Nothing is shared between checkpoints."""

    def notify_checkpoint_subsumed(self, checkpoint_id: int) -> None:
        """Nothing is shared between checkpoints."""

    def close(self) -> None:
        """Nothing is held."""
