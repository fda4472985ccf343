"""Puts an asynchronous operator at the end of a chain; its state is the elements in its queue.

Answers to an `AsyncWaitOperatorFactory` with a `StreamOperatorStateHandler`. Invariant: a snapshot holds the elements
unserialised; the code that stores the checkpoint serialises each of them once.
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


class AsyncOperator(Protocol):
    """The methods that every implementation of the operator has."""

    @property
    def room(self) -> Availability:
        """Whether an element would be admitted at once (A33)."""

    def open(self, restored: Iterable[QueueElement] = ()) -> None:
        """Process the elements of a snapshot again (A61)."""

    def process(self, element: OperatorInput) -> None:
        """Admit an element (A27)."""

    def snapshot(self) -> Sequence[QueueElement]:
        """The elements whose results were not emitted (A56)."""

    def end_input(self) -> None:
        """Return when everything was emitted (A66)."""

    def close(self) -> None: ...


class BuildAsyncOperator(Protocol):
    """Builds the operator at its place in the chain."""

    def __call__(
        self,
        *,
        executor: MailboxExecutor,
        timers: Timers,
        emit: Callable[[OperatorInput], None],
        fail: Callable[[BaseException], None],
    ) -> AsyncOperator: ...


class PatientlyFed:
    """Wraps an operator that is fed even when its queue is full; `process` then runs mail until a slot is free.

    Mutable. This is Flink's behaviour before FLINK-39835. `entering` holds the element that waits for a slot; a
    snapshot must contain it (FLINK-7949).
    """

    def __init__(self, operator: AsyncOperator, restored: Iterable[QueueElement]) -> None:
        self._operator = operator
        self._restored = restored
        self.entering: tuple[Any, ...] = ()
        self.snapshot = operator.snapshot

    def open(self) -> None:
        restored, self._restored = self._restored, ()
        self._operator.open(restored)

    def process(self, element: OperatorInput) -> None:
        self.entering = (element,)
        self._operator.process(element)
        self.entering = ()

    def end_input(self) -> None:
        self._operator.end_input()

    def close(self) -> None:
        self._operator.close()


class Fed:
    """Wraps an operator that is fed only while it has room."""

    entering = ()

    def __init__(self, operator: AsyncOperator, restored: Iterable[QueueElement]) -> None:
        self._operator = operator
        self._restored = restored
        self.process = operator.process
        self.snapshot = operator.snapshot

    def open(self) -> None:
        restored, self._restored = self._restored, ()
        self._operator.open(restored)

    @property
    def room(self) -> Availability:
        """Whether an element would be admitted at once (A33)."""
        return self._operator.room

    def end_input(self) -> None:
        self._operator.end_input()

    def close(self) -> None:
        self._operator.close()


def async_link(
    build: BuildAsyncOperator,
    *,
    operator_id: str,
    restored: Iterable[QueueElement],
    is_hard: bool,
    blocked: Callable[[tuple[Any, ...]], tuple[Any, ...]],
) -> OperatorLink:
    """Build the link. `is_hard` feeds a full queue; `blocked` gives what a snapshot holds of the waiting element."""
    kind = PatientlyFed if is_hard else Fed

    def built(*, downstream: Callable[[], Availability] | None, **parts: Any) -> Fed | PatientlyFed:
        if downstream is not None:  # not every implementation has this parameter
            parts["downstream"] = downstream
        return kind(build(**parts), restored)

    return OperatorLink(
        operator_id=operator_id, build=built, state_handler=partial(_ElementState, blocked=blocked)
    )


class _ElementState:
    """An `OperatorStateHandler` whose state is the operator's elements; `open` restores them."""

    def __init__(self, operator: Fed | PatientlyFed, timers: Timers, *, blocked: Any) -> None:
        del timers
        self._operator = operator
        self._blocked = blocked

    def initialize_operator_state(self, operator: Any) -> None:
        """Does nothing: the operator's `open` restores the elements."""

    def snapshot_state(
        self, operator: Any, metadata: CheckpointMetaData, options: CheckpointOptions
    ) -> OperatorSnapshotFutures:
        """Elements are frozen values: nothing is copied, and there is no asynchronous part."""
        del operator, metadata, options
        elements = (*self._operator.snapshot(), *self._blocked(self._operator.entering))
        return OperatorSnapshotFutures(managed_operator_state=SnapshotFuture.of(elements))

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None: ...

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None: ...

    def notify_checkpoint_subsumed(self, checkpoint_id: int) -> None: ...

    def close(self) -> None: ...
